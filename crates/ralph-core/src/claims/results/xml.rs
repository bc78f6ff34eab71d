//! XML as a list of what a reader of reports needs: elements that open and close, with their text.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

pub(super) enum XmlPart {
    Open(XmlElement),
    Close(String),
    Text(String),
}

pub(super) struct XmlElement {
    pub(super) name: String,
    attributes: Vec<(String, String)>,
}

impl XmlElement {
    /// An attribute's value, if it says something.
    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    pub(super) fn number(&self, name: &str) -> Option<u32> {
        self.attribute(name)?.parse().ok()
    }
}

/// The parts of one or several documents, up to the first place that is no XML.
pub(super) fn parts(text: &str) -> impl Iterator<Item = XmlPart> {
    let mut reader = Reader::from_str(text);
    let config = reader.config_mut();
    config.expand_empty_elements = true;
    config.allow_dangling_amp = true;
    config.allow_unmatched_ends = true;
    config.check_end_names = false;
    std::iter::from_fn(move || {
        loop {
            match reader.read_event().ok()? {
                Event::Eof => return None,
                Event::Start(start) => return Some(XmlPart::Open(element(&start))),
                Event::End(end) => return Some(XmlPart::Close(local(end.name().as_ref()))),
                Event::Text(text) => return Some(XmlPart::Text(text.xml10_content().into_owned())),
                Event::CData(text) => return Some(XmlPart::Text(text.xml10_content().into_owned())),
                Event::GeneralRef(reference) => {
                    let name = reference.xml10_content();
                    return Some(XmlPart::Text(resolved(&name)));
                }
                _ => {}
            }
        }
    })
}

/// `&lt;` and `&#10;` as text; an unknown one stays as it is.
fn resolved(name: &str) -> String {
    let escaped = format!("&{name};");
    quick_xml::escape::unescape(&escaped).map_or_else(|_| escaped.clone(), std::borrow::Cow::into_owned)
}

fn element(start: &BytesStart<'_>) -> XmlElement {
    let mut listed = start.attributes();
    let attributes = listed.with_checks(false).flatten().map(|attribute| {
        let raw: &str = attribute.value.as_ref();
        let value =
            quick_xml::escape::unescape(raw).map_or_else(|_| raw.to_owned(), std::borrow::Cow::into_owned);
        (local(attribute.key.as_ref()), value)
    });
    XmlElement { name: local(start.name().as_ref()), attributes: attributes.collect() }
}

/// A name without its namespace.
fn local(name: &str) -> String {
    name.rsplit(':').next().unwrap_or(name).to_owned()
}
