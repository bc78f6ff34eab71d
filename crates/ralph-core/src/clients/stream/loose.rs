//! Tolerant parsing of another program's JSON: a field of an unexpected type counts as absent, lists are bounded, and
//! skipped values take no memory.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Parses one line; none if it is not a JSON object. Lone surrogates, which JavaScript programs write, are replaced.
pub(crate) fn object<T: DeserializeOwned>(line: &str) -> Option<T> {
    if !line.starts_with('{') {
        return None;
    }
    match serde_json::from_str(line) {
        Ok(row) => Some(row),
        Err(_) => serde_json::from_str(&without_half_pairs(line)?).ok(),
    }
}

/// The line with lone surrogates replaced; none if it has none.
fn without_half_pairs(line: &str) -> Option<String> {
    let unit = |at: usize| {
        let digits = line.get(at..)?.strip_prefix("\\u")?.get(..4)?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut fixed = String::with_capacity(line.len());
    let (mut from, mut at, mut changed) = (0, 0, false);
    while let Some(found) = line[at..].find('\\') {
        at += found;
        match (unit(at), unit(at + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => at += 12,
            (Some(0xd800..=0xdfff), _) => {
                fixed.push_str(&line[from..at]);
                fixed.push_str("\\ufffd");
                at += 6;
                (from, changed) = (at, true);
            }
            // Any other escape is skipped whole.
            _ => at += 1 + line[at + 1..].chars().next().map_or(0, char::len_utf8),
        }
    }
    fixed.push_str(&line[from..]);
    changed.then_some(fixed)
}

/// The possible values of a field. Each type overrides what it accepts; anything else leaves the default.
trait Loose<'de>: Default {
    fn from_text(_text: &str) -> Self {
        Self::default()
    }

    fn from_number(_number: f64) -> Self {
        Self::default()
    }

    fn from_flag(_flag: bool) -> Self {
        Self::default()
    }

    fn from_list<A: SeqAccess<'de>>(list: &mut A) -> Result<Self, A::Error> {
        skip_list(list).map(|()| Self::default())
    }

    fn from_object<A: MapAccess<'de>>(mut object: A) -> Result<Self, A::Error> {
        while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Self::default())
    }
}

fn skip_list<'de, A: SeqAccess<'de>>(list: &mut A) -> Result<(), A::Error> {
    while list.next_element::<IgnoredAny>()?.is_some() {}
    Ok(())
}

struct LooseVisitor<T>(PhantomData<T>);

impl<'de, T: Loose<'de>> Visitor<'de> for LooseVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_unit<E>(self) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_bool<E>(self, flag: bool) -> Result<T, E> {
        Ok(T::from_flag(flag))
    }

    fn visit_u64<E>(self, number: u64) -> Result<T, E> {
        Ok(T::from_number(number as f64))
    }

    fn visit_i64<E>(self, number: i64) -> Result<T, E> {
        Ok(T::from_number(number as f64))
    }

    fn visit_f64<E>(self, number: f64) -> Result<T, E> {
        Ok(T::from_number(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<T, E> {
        Ok(T::from_text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<T, A::Error> {
        T::from_list(&mut list)
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<T, A::Error> {
        T::from_object(object)
    }
}

macro_rules! deserialize_loosely {
    ($([$($generic:tt)*] $type:ty;)+) => {$(
        impl<'de, $($generic)*> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(LooseVisitor(PhantomData))
            }
        }
    )+};
}

deserialize_loosely! {
    [] Text;
    [] Number;
    [] Flag;
    [] FirstText;
    [T: Deserialize<'de>] Object<T>;
    [T: Deserialize<'de>] FirstObjects<T>;
    [T: Deserialize<'de> + Add + Default] Sum<T>;
}

/// An optional text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text(pub(crate) Option<String>);

impl Text {
    pub(crate) fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }

    /// The text, if it is not empty.
    pub(crate) fn filled(&self) -> Option<&str> {
        self.0.as_deref().filter(|text| !text.trim().is_empty())
    }
}

impl Loose<'_> for Text {
    fn from_text(text: &str) -> Self {
        Self(Some(text.to_owned()))
    }
}

/// An optional number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Number(pub(crate) Option<f64>);

impl Number {
    /// As a count; none for fractions and negative numbers.
    pub(crate) fn count(self) -> Option<u64> {
        // Floats are exact up to here.
        const MOST: f64 = 9_007_199_254_740_992.0;
        self.0
            .filter(|number| (0.0..=MOST).contains(number) && number.fract() == 0.0)
            .map(|number| number as u64)
    }

    pub(crate) fn small<T: TryFrom<u64>>(self) -> Option<T> {
        self.count().and_then(|count| T::try_from(count).ok())
    }
}

impl Loose<'_> for Number {
    fn from_number(number: f64) -> Self {
        Self(Some(number))
    }
}

/// True only for `true`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flag(pub(crate) bool);

impl Loose<'_> for Flag {
    fn from_flag(flag: bool) -> Self {
        Self(flag)
    }
}

/// An optional object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object<T>(pub(crate) Option<T>);

impl<T> Default for Object<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: Deserialize<'de>> Loose<'de> for Object<T> {
    fn from_object<A: MapAccess<'de>>(object: A) -> Result<Self, A::Error> {
        T::deserialize(MapAccessDeserializer::new(object)).map(|object| Self(Some(object)))
    }
}

/// The first objects of a list, bounded so that a line of brackets does not grow a hundredfold in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FirstObjects<T>(pub(crate) Vec<T>);

impl<T> Default for FirstObjects<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

const FEW: usize = 64;

impl<'de, T: Deserialize<'de>> Loose<'de> for FirstObjects<T> {
    fn from_list<A: SeqAccess<'de>>(list: &mut A) -> Result<Self, A::Error> {
        let mut few = Vec::new();
        while few.len() < FEW
            && let Some(Object(object)) = list.next_element()?
        {
            few.extend(object);
        }
        skip_list(list).map(|()| Self(few))
    }
}

/// The first text of a list of texts, or the text itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FirstText(pub(crate) Text);

impl<'de> Loose<'de> for FirstText {
    fn from_text(text: &str) -> Self {
        Self(Text::from_text(text))
    }

    fn from_list<A: SeqAccess<'de>>(list: &mut A) -> Result<Self, A::Error> {
        let first = list.next_element()?.unwrap_or_default();
        skip_list(list).map(|()| Self(first))
    }
}

/// The values of an object with unknown keys, added up.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sum<T>(pub(crate) T);

pub(crate) trait Add {
    fn add(&mut self, other: Self);
}

impl<'de, T: Deserialize<'de> + Add + Default> Loose<'de> for Sum<T> {
    fn from_object<A: MapAccess<'de>>(mut object: A) -> Result<Self, A::Error> {
        let mut sum = T::default();
        while let Some((_, Object(value))) = object.next_entry::<IgnoredAny, Object<T>>()? {
            if let Some(value) = value {
                sum.add(value);
            }
        }
        Ok(Self(sum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(default)]
    struct Row {
        text: Text,
        number: Number,
        flag: Flag,
        inner: Object<Inner>,
        list: FirstObjects<Inner>,
    }

    #[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
    #[serde(default)]
    struct Inner {
        name: Text,
    }

    #[test]
    fn a_field_of_an_unexpected_type_counts_as_absent() {
        for odd in ["null", "true", "-1", "1.5", "7", "\"x\"", "[1,[2,{}]]", "{\"a\":[{}]}"] {
            let line = format!(
                "{{\"text\":{odd},\"number\":{odd},\"flag\":{odd},\"inner\":{odd},\"list\":{odd},\"more\":{odd}}}"
            );
            let row: Row = object(&line).expect(odd);
            assert_eq!(row.text.0.is_some(), odd == "\"x\"", "{odd}");
            assert_eq!(row.number.count(), (odd == "7").then_some(7), "{odd}");
            assert_eq!(row.flag.0, odd == "true", "{odd}");
            assert_eq!(row.inner.0.is_some(), odd.starts_with('{'), "{odd}");
        }
        assert_eq!(object::<Row>("[1]"), None);
        assert_eq!(object::<Row>("{\"text\":"), None);
    }

    #[test]
    fn a_lone_surrogate_is_replaced_and_the_line_kept() {
        let table = [
            (r#"{"text":"a\ud83db"}"#, "a\u{fffd}b"),
            (r#"{"text":"a\ude00"}"#, "a\u{fffd}"),
            (r#"{"text":"\ud83d\ude00 \ud83d"}"#, "\u{1f600} \u{fffd}"),
            (r#"{"text":"\\ud83d \ud83d"}"#, "\\ud83d \u{fffd}"),
        ];
        for (line, text) in table {
            assert_eq!(object::<Row>(line).expect(line).text.as_str(), text, "{line}");
        }
    }

    #[test]
    fn lists_are_bounded() {
        let line = format!("{{\"list\":[{}7]}}", "{},".repeat(1000));
        assert_eq!(object::<Row>(&line).expect("a row").list.0.len(), FEW);
    }
}
