//! Reading another program's JSON without trusting its shape: a field of another type than expected is as good as absent,
//! a list is kept only as far as somebody looks, and nothing that is skipped takes memory.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// One line as a row of fields; none where it is no JSON object. Half of a surrogate pair, which a program in JavaScript
/// writes without a second thought, does not cost the line.
pub(crate) fn object<T: DeserializeOwned>(line: &str) -> Option<T> {
    if !line.starts_with('{') {
        return None;
    }
    match serde_json::from_str(line) {
        Ok(row) => Some(row),
        Err(_) => serde_json::from_str(&without_half_pairs(line)?).ok(),
    }
}

/// The line with every half of a surrogate pair replaced; none where there is no such half.
fn without_half_pairs(line: &str) -> Option<String> {
    let unit = |at: usize| {
        let digits = line.get(at..)?.strip_prefix("\\u")?.get(..4)?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut mended = String::with_capacity(line.len());
    let (mut from, mut at, mut changed) = (0, 0, false);
    while let Some(found) = line[at..].find('\\') {
        at += found;
        match (unit(at), unit(at + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => at += 12,
            (Some(0xd800..=0xdfff), _) => {
                mended.push_str(&line[from..at]);
                mended.push_str("\\ufffd");
                at += 6;
                (from, changed) = (at, true);
            }
            // Any other escape: its second character begins no new one.
            _ => at += 1 + line[at + 1..].chars().next().map_or(0, char::len_utf8),
        }
    }
    mended.push_str(&line[from..]);
    changed.then_some(mended)
}

macro_rules! otherwise_absent {
    ($($visit:ident: $from:ty),+ $(,)?) => {$(
        fn $visit<E>(self, _value: $from) -> Result<Self::Value, E> {
            Ok(Self::Value::default())
        }
    )+};
}

macro_rules! skip_list {
    () => {
        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            while list.next_element::<IgnoredAny>()?.is_some() {}
            Ok(Self::Value::default())
        }
    };
}

macro_rules! skip_object {
    () => {
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok(Self::Value::default())
        }
    };
}

macro_rules! expecting_anything {
    () => {
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("anything")
        }
    };
}

/// A text, or nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text(pub(crate) Option<String>);

impl Text {
    pub(crate) fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }

    /// The text where there is one with something in it.
    pub(crate) fn filled(&self) -> Option<&str> {
        self.0.as_deref().filter(|text| !text.trim().is_empty())
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;

        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text;
            expecting_anything!();
            otherwise_absent!(visit_bool: bool, visit_u64: u64, visit_i64: i64, visit_f64: f64);
            skip_list!();
            skip_object!();

            fn visit_unit<E>(self) -> Result<Text, E> {
                Ok(Text::default())
            }

            fn visit_str<E>(self, text: &str) -> Result<Text, E> {
                Ok(Text(Some(text.to_owned())))
            }
        }

        deserializer.deserialize_any(TextVisitor)
    }
}

/// A number, or nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Number(pub(crate) Option<f64>);

impl Number {
    /// As a count; a fraction or a negative number is none.
    pub(crate) fn count(self) -> Option<u64> {
        // Up to here a float counts exactly.
        const MOST: f64 = 9_007_199_254_740_992.0;
        self.0
            .filter(|number| (0.0..=MOST).contains(number) && number.fract() == 0.0)
            .map(|number| number as u64)
    }

    pub(crate) fn small<T: TryFrom<u64>>(self) -> Option<T> {
        self.count().and_then(|count| T::try_from(count).ok())
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberVisitor;

        impl<'de> Visitor<'de> for NumberVisitor {
            type Value = Number;
            expecting_anything!();
            otherwise_absent!(visit_bool: bool, visit_str: &str);
            skip_list!();
            skip_object!();

            fn visit_unit<E>(self) -> Result<Number, E> {
                Ok(Number(None))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Number, E> {
                Ok(Number(Some(number as f64)))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Number, E> {
                Ok(Number(Some(number as f64)))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Number, E> {
                Ok(Number(Some(number)))
            }
        }

        deserializer.deserialize_any(NumberVisitor)
    }
}

/// True only where it says `true`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flag(pub(crate) bool);

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FlagVisitor;

        impl<'de> Visitor<'de> for FlagVisitor {
            type Value = Flag;
            expecting_anything!();
            otherwise_absent!(visit_str: &str, visit_u64: u64, visit_i64: i64, visit_f64: f64);
            skip_list!();
            skip_object!();

            fn visit_unit<E>(self) -> Result<Flag, E> {
                Ok(Flag(false))
            }

            fn visit_bool<E>(self, value: bool) -> Result<Flag, E> {
                Ok(Flag(value))
            }
        }

        deserializer.deserialize_any(FlagVisitor)
    }
}

/// An object that is there, or nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object<T>(pub(crate) Option<T>);

impl<T> Default for Object<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
            type Value = Object<T>;
            expecting_anything!();
            otherwise_absent!(visit_bool: bool, visit_str: &str, visit_u64: u64, visit_i64: i64, visit_f64: f64);
            skip_list!();

            fn visit_unit<E>(self) -> Result<Object<T>, E> {
                Ok(Object(None))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(|object| Object(Some(object)))
            }
        }

        deserializer.deserialize_any(ObjectVisitor(PhantomData))
    }
}

/// The first objects of a list. A line of nothing but brackets must not become a hundred times its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Few<T>(pub(crate) Vec<T>);

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

const FEW: usize = 64;

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Few<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FewVisitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for FewVisitor<T> {
            type Value = Few<T>;
            expecting_anything!();
            otherwise_absent!(visit_bool: bool, visit_str: &str, visit_u64: u64, visit_i64: i64, visit_f64: f64);
            skip_object!();

            fn visit_unit<E>(self) -> Result<Few<T>, E> {
                Ok(Few::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Few<T>, A::Error> {
                let mut few = Vec::new();
                while few.len() < FEW {
                    match list.next_element::<Object<T>>()? {
                        Some(Object(Some(object))) => few.push(object),
                        Some(Object(None)) => {}
                        None => return Ok(Few(few)),
                    }
                }
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Few(few))
            }
        }

        deserializer.deserialize_any(FewVisitor(PhantomData))
    }
}

/// The first text of a list of texts, or the text itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FirstText(pub(crate) Text);

impl<'de> Deserialize<'de> for FirstText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FirstVisitor;

        impl<'de> Visitor<'de> for FirstVisitor {
            type Value = FirstText;
            expecting_anything!();
            otherwise_absent!(visit_bool: bool, visit_u64: u64, visit_i64: i64, visit_f64: f64);
            skip_object!();

            fn visit_unit<E>(self) -> Result<FirstText, E> {
                Ok(FirstText::default())
            }

            fn visit_str<E>(self, text: &str) -> Result<FirstText, E> {
                Ok(FirstText(Text(Some(text.to_owned()))))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<FirstText, A::Error> {
                let first = list.next_element::<Text>()?.unwrap_or_default();
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(FirstText(first))
            }
        }

        deserializer.deserialize_any(FirstVisitor)
    }
}

/// The values of an object whose keys nobody knows beforehand, added up.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sum<T>(pub(crate) T);

pub(crate) trait Add {
    fn add(&mut self, other: Self);
}

impl<'de, T: Deserialize<'de> + Add + Default> Deserialize<'de> for Sum<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SumVisitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de> + Add + Default> Visitor<'de> for SumVisitor<T> {
            type Value = Sum<T>;
            expecting_anything!();

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Sum<T>, A::Error> {
                let mut sum = T::default();
                while let Some((_, value)) = map.next_entry::<IgnoredAny, Object<T>>()? {
                    if let Some(value) = value.0 {
                        sum.add(value);
                    }
                }
                Ok(Sum(sum))
            }
        }

        deserializer.deserialize_any(SumVisitor(PhantomData))
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
        list: Few<Inner>,
    }

    #[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
    #[serde(default)]
    struct Inner {
        name: Text,
    }

    #[test]
    fn a_field_of_another_type_is_as_good_as_absent() {
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
    fn half_a_surrogate_pair_costs_one_character_and_not_the_line() {
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
    fn a_list_is_kept_only_as_far_as_somebody_looks() {
        let line = format!("{{\"list\":[{}7]}}", "{},".repeat(1000));
        assert_eq!(object::<Row>(&line).expect("a row").list.0.len(), FEW);
    }
}
