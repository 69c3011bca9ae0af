//! Replies to options.

use crate::limits::MOST_PAYLOAD_BYTES;
use crate::wire::{BASE_ALLOCATION, MOST_STRING_BYTES, info, magic, option_reply as reply};

/// The least that can be addressed, and what is best to be addressed at least.
const BLOCK_BYTES: (u32, u32) = (1, 4096);

/// As much of the text as the protocol lets through.
fn fitting(text: &str) -> &str {
    let end = text.find('\0').unwrap_or(text.len()).min(MOST_STRING_BYTES);
    let boundary = (0..=end).rev().find(|index| text.is_char_boundary(*index));
    &text[..boundary.unwrap_or(0)]
}

fn length_of(text: &str) -> [u8; 4] {
    u32::try_from(text.len())
        .expect("strings are short")
        .to_be_bytes()
}

/// Writes replies to one option.
pub(super) struct Replies<'a> {
    option: u32,
    output: &'a mut Vec<u8>,
}

impl<'a> Replies<'a> {
    pub(super) fn to(option: u32, output: &'a mut Vec<u8>) -> Self {
        Self { option, output }
    }

    fn reply(&mut self, kind: u32, parts: &[&[u8]]) {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let length = u32::try_from(length).expect("replies are short");
        self.output
            .extend_from_slice(&magic::OPTION_REPLY.to_be_bytes());
        for word in [self.option, kind, length] {
            self.output.extend_from_slice(&word.to_be_bytes());
        }
        for part in parts {
            self.output.extend_from_slice(part);
        }
    }

    /// That was all, and it is well.
    pub(super) fn acknowledge(&mut self) {
        self.reply(reply::ACK, &[]);
    }

    /// The option is refused, with a text for a person.
    pub(super) fn error(&mut self, kind: u32, message: &str) {
        self.reply(kind, &[message.as_bytes()]);
    }

    /// One of the exports there are. One whose name no client could ask for is left out.
    pub(super) fn server(&mut self, name: &str, description: &str) {
        if fitting(name) == name {
            let parts = [
                &length_of(name)[..],
                name.as_bytes(),
                fitting(description).as_bytes(),
            ];
            self.reply(reply::SERVER, &parts);
        }
    }

    /// Size and flags of the export.
    pub(super) fn export(&mut self, size_bytes: u64, flags: u16) {
        let parts = [
            &info::EXPORT.to_be_bytes()[..],
            &size_bytes.to_be_bytes(),
            &flags.to_be_bytes(),
        ];
        self.reply(reply::INFO, &parts);
    }

    /// Its name or description.
    pub(super) fn text(&mut self, kind: u16, text: &str) {
        self.reply(
            reply::INFO,
            &[&kind.to_be_bytes(), fitting(text).as_bytes()],
        );
    }

    /// What can be addressed.
    pub(super) fn block_size(&mut self) {
        let (least, preferred) = BLOCK_BYTES;
        let sizes = [least, preferred, MOST_PAYLOAD_BYTES].map(u32::to_be_bytes);
        self.reply(
            reply::INFO,
            &[&info::BLOCK_SIZE.to_be_bytes(), sizes.as_flattened()],
        );
    }

    /// The metadata context.
    pub(super) fn meta_context(&mut self, id: u32) {
        self.reply(
            reply::META_CONTEXT,
            &[&id.to_be_bytes(), BASE_ALLOCATION.as_bytes()],
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(fitting("short"), "short");
        assert_eq!(fitting("cut\0here"), "cut");
        let long = "é".repeat(MOST_STRING_BYTES);
        assert_eq!(fitting(&long).len(), MOST_STRING_BYTES);
        let odd = format!("a{long}");
        assert_eq!(fitting(&odd).len(), MOST_STRING_BYTES - 1);
    }

    #[test]
    fn an_export_with_an_impossible_name_is_not_listed() {
        let mut output = Vec::new();
        Replies::to(3, &mut output).server("a\0b", "");
        assert!(output.is_empty());
        Replies::to(3, &mut output).server("ab", "c");
        assert_eq!(&output[20..], b"\0\0\0\x02abc");
    }
}
