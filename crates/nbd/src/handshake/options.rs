//! Data of the options that have some.

use crate::wire::{Cursor, MOST_STRING_BYTES};

/// The name, if it is one: UTF-8, no longer than strings may be, without NUL.
pub(super) fn valid_name(bytes: &[u8]) -> Option<&str> {
    if bytes.len() > MOST_STRING_BYTES || bytes.contains(&0) {
        return None;
    }
    std::str::from_utf8(bytes).ok()
}

/// Data of INFO and GO.
#[derive(Debug)]
pub(super) struct ExportRequest<'a> {
    pub(super) name: &'a str,
    /// Numbers of the information asked for, two bytes each.
    wanted: &'a [u8],
}

impl<'a> ExportRequest<'a> {
    pub(super) fn parse(data: &'a [u8]) -> Option<Self> {
        let mut cursor = Cursor::new(data);
        let name = valid_name(cursor.counted()?)?;
        let count = usize::from(cursor.u16()?);
        let wanted = cursor.bytes(2 * count)?;
        cursor.is_empty().then_some(Self { name, wanted })
    }

    /// Whether this information was asked for.
    pub(super) fn wants(&self, number: u16) -> bool {
        let (numbers, _) = self.wanted.as_chunks::<2>();
        numbers.contains(&number.to_be_bytes())
    }
}

/// Data of LIST_META_CONTEXT and SET_META_CONTEXT.
#[derive(Debug)]
pub(super) struct MetaContextRequest<'a> {
    pub(super) name: &'a str,
    count: u32,
    /// The queries, each with its length before it; they were all looked at.
    queries: Cursor<'a>,
}

impl<'a> MetaContextRequest<'a> {
    pub(super) fn parse(data: &'a [u8]) -> Option<Self> {
        let mut cursor = Cursor::new(data);
        let name = valid_name(cursor.counted()?)?;
        let count = cursor.u32()?;
        let queries = cursor;
        // Each takes four bytes at least: a count beyond what is there ends at the end of the data.
        for _ in 0..count {
            if cursor.counted()?.len() > MOST_STRING_BYTES {
                return None;
            }
        }
        let request = Self {
            name,
            count,
            queries,
        };
        cursor.is_empty().then_some(request)
    }

    /// Whether nothing is asked for.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether one of the queries is this. Others, of namespaces that we do not know, are ignored.
    pub(super) fn asks_for(&self, query: &str) -> bool {
        let mut queries = self.queries;
        (0..self.count).any(|_| queries.counted() == Some(query.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(text: &str) -> Vec<u8> {
        let length = u32::try_from(text.len()).unwrap().to_be_bytes();
        [&length[..], text.as_bytes()].concat()
    }

    #[test]
    fn names_are_text() {
        assert_eq!(valid_name(b""), Some(""));
        assert_eq!(valid_name("disk é".as_bytes()), Some("disk é"));
        assert_eq!(valid_name(b"a\0b"), None);
        assert_eq!(valid_name(&[0xff]), None);
        assert!(valid_name(&[b'a'; MOST_STRING_BYTES]).is_some());
        assert!(valid_name(&[b'a'; MOST_STRING_BYTES + 1]).is_none());
    }

    #[test]
    fn export_requests_are_exactly_as_long_as_they_say() {
        let data = [&counted("disk")[..], &[0, 2, 0, 3, 0, 1]].concat();
        let request = ExportRequest::parse(&data).unwrap();
        assert_eq!(request.name, "disk");
        assert!(request.wants(3) && request.wants(1) && !request.wants(2));
        for end in 0..data.len() {
            assert!(ExportRequest::parse(&data[..end]).is_none(), "cut at {end}");
        }
        assert!(ExportRequest::parse(&[&data[..], &[0]].concat()).is_none());
    }

    #[test]
    fn queries_are_counted_by_what_is_there() {
        let queries = [
            counted("disk"),
            vec![0, 0, 0, 2],
            counted("x:y"),
            counted("base:"),
        ]
        .concat();
        let request = MetaContextRequest::parse(&queries).unwrap();
        assert!(request.asks_for("base:") && request.asks_for("x:y"));
        assert!(!request.asks_for("base:allocation") && !request.is_empty());
        let lie = [counted("disk"), vec![0xff; 4], counted("base:")].concat();
        assert!(MetaContextRequest::parse(&lie).is_none());
        let nothing = [counted("disk"), vec![0; 4]].concat();
        assert!(MetaContextRequest::parse(&nothing).unwrap().is_empty());
    }
}
