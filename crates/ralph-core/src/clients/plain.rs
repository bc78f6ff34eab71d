//! A program that prints plain text: every line is a message, and the exit code is the only result.

use crate::clients::stream::{EventSink, LineMeaning, ReadLines};

pub(crate) struct PlainReader;

impl ReadLines for PlainReader {
    fn line(&mut self, line: &str, out: &mut EventSink<'_>) -> LineMeaning {
        out.said(line);
        LineMeaning::Known
    }
}
