//! The handshake: from the greeting to an export, as a machine over bytes.
//!
//! It knows no socket. Whoever drives it reads as many bytes as it wants ([`Handshake::wants`]), gives it those
//! ([`Handshake::take`]), and sends what it wrote.
//!
//! ```text
//!  greeting ─▶ client's flags ─▶ option header ─▶ data ──┬─ answered ─▶ option header …
//!                                     │   too long:      ├─ GO, EXPORT_NAME ─▶ session
//!                                     └─▶ discard ───────┘  ABORT ─▶ closed
//! ```
//!
//! Nothing that a client claims is allocated: an option longer than [`Limits::option_bytes`](crate::Limits) is
//! discarded and refused, counts inside it are met by what it really has.
//!
//! Not here: TLS and extended headers, which are refused as unknown options, and the oldest handshakes, in which a
//! server offers one export unasked.

mod options;
mod replies;

use crate::export::{Exports, Guarded};
use crate::limits::{Limits, MOST_PAYLOAD_BYTES};
use crate::session::{Session, transmission_flags};
use crate::violation::Violation;
use crate::wire::{
    BASE_ALLOCATION, Cursor, OPTION_HEADER_BYTES, handshake_flag, info, magic, option,
    option_reply as reply,
};
use options::{ExportRequest, MetaContextRequest, valid_name};
use replies::Replies;

/// Options that a client may send before the server takes it for one that only keeps it busy.
const MOST_OPTIONS: u32 = 1024;
/// Zeros after the answer to EXPORT_NAME, for clients that want them.
const PADDING_BYTES: usize = 124;

/// What the machine wants to be given next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wants {
    /// Exactly so many bytes.
    Bytes(usize),
    /// Nothing, after so many bytes were read and dropped.
    Discarded(u32),
}

/// What follows from what was taken.
pub(crate) enum Step {
    /// The handshake goes on, once the output was sent.
    More,
    /// The client has its export.
    Enter(Session),
    /// The client is done.
    Close,
}

enum State {
    ClientFlags,
    OptionHeader,
    OptionData { option: u32, length: usize },
    Oversized { option: u32, length: u32 },
}

/// A handshake that is under way.
pub(crate) struct Handshake<'a> {
    exports: &'a dyn Exports,
    option_bytes: usize,
    state: State,
    no_zeroes: bool,
    structured: bool,
    /// The name of the export for which `base:allocation` was selected.
    block_status_of: Option<String>,
    options: u32,
}

impl<'a> Handshake<'a> {
    /// Begins one: writes the greeting.
    pub(crate) fn begin(exports: &'a dyn Exports, limits: &Limits, output: &mut Vec<u8>) -> Self {
        output.extend_from_slice(&magic::GREETING.to_be_bytes());
        output.extend_from_slice(&magic::OPTION.to_be_bytes());
        let flags = handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES;
        output.extend_from_slice(&flags.to_be_bytes());
        Self {
            exports,
            option_bytes: limits.option_bytes,
            state: State::ClientFlags,
            no_zeroes: false,
            structured: false,
            block_status_of: None,
            options: 0,
        }
    }

    /// What to read next.
    pub(crate) fn wants(&self) -> Wants {
        match self.state {
            State::ClientFlags => Wants::Bytes(4),
            State::OptionHeader => Wants::Bytes(OPTION_HEADER_BYTES),
            State::OptionData { length, .. } => Wants::Bytes(length),
            State::Oversized { length, .. } => Wants::Discarded(length),
        }
    }

    /// Takes what it wanted, and writes what is to be sent.
    pub(crate) fn take(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<Step, Violation> {
        match std::mem::replace(&mut self.state, State::OptionHeader) {
            State::ClientFlags => self.client_flags(input).map(|()| Step::More),
            State::OptionHeader => self.option_header(input).map(|()| Step::More),
            State::OptionData { option, .. } => self.option(option, input, output),
            State::Oversized { option, length } => self.oversized(option, length, output),
        }
    }

    fn oversized(
        &mut self,
        option: u32,
        length: u32,
        output: &mut Vec<u8>,
    ) -> Result<Step, Violation> {
        match option {
            option::EXPORT_NAME => return Err(Violation::ExportName),
            // Whatever comes of it, what was selected before is not any more.
            option::SET_META_CONTEXT => self.block_status_of = None,
            _ => {}
        }
        let message = format!("{length} bytes of data are too many");
        Replies::to(option, output).error(reply::ERR_TOO_BIG, &message);
        Ok(Step::More)
    }

    fn client_flags(&mut self, input: &[u8]) -> Result<(), Violation> {
        let flags = Cursor::new(input).u32().unwrap_or(u32::MAX);
        let known = handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES;
        if flags & !u32::from(known) != 0 {
            return Err(Violation::ClientFlags(flags));
        }
        self.no_zeroes = flags & u32::from(handshake_flag::NO_ZEROES) != 0;
        Ok(())
    }

    fn option_header(&mut self, input: &[u8]) -> Result<(), Violation> {
        let mut cursor = Cursor::new(input);
        let begins = cursor.u64().unwrap_or(0);
        let (Some(option), Some(length)) = (cursor.u32(), cursor.u32()) else {
            return Err(Violation::OptionMagic(begins));
        };
        if begins != magic::OPTION {
            return Err(Violation::OptionMagic(begins));
        }
        self.options += 1;
        if self.options > MOST_OPTIONS {
            return Err(Violation::Options);
        }
        self.state = match usize::try_from(length) {
            Ok(length) if length <= self.option_bytes => State::OptionData { option, length },
            _ if length <= MOST_PAYLOAD_BYTES => State::Oversized { option, length },
            _ => return Err(Violation::OptionLength(length)),
        };
        Ok(())
    }

    fn option(
        &mut self,
        option: u32,
        data: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<Step, Violation> {
        let mut replies = Replies::to(option, output);
        match option {
            option::EXPORT_NAME => return self.export_name(data, output),
            option::INFO | option::GO => return Ok(self.export_request(option, data, output)),
            option::ABORT => {
                replies.acknowledge();
                return Ok(Step::Close);
            }
            option::LIST_META_CONTEXT => self.list_meta_context(data, &mut replies),
            option::SET_META_CONTEXT => self.set_meta_context(data, &mut replies),
            option::LIST | option::STRUCTURED_REPLY | option::STARTTLS if !data.is_empty() => {
                replies.error(reply::ERR_INVALID, "this option takes no data");
            }
            option::LIST => {
                for (name, description) in self.exports.names() {
                    replies.server(&name, &description);
                }
                replies.acknowledge();
            }
            option::STRUCTURED_REPLY => {
                self.structured = true;
                replies.acknowledge();
            }
            option::STARTTLS => replies.error(reply::ERR_UNSUP, "this server has no TLS"),
            option::EXTENDED_HEADERS => {
                replies.error(reply::ERR_UNSUP, "this server has no extended headers")
            }
            _ => replies.error(reply::ERR_UNSUP, "unknown option"),
        }
        Ok(Step::More)
    }

    fn find(&self, name: &str) -> Option<Guarded> {
        self.exports.find(name).map(Guarded::new)
    }

    fn enter(&mut self, name: &str, export: Guarded) -> Step {
        Step::Enter(Session {
            name: name.to_owned(),
            export,
            structured: self.structured,
            block_status: self.block_status_of.as_deref() == Some(name),
        })
    }

    /// EXPORT_NAME, which has no other answer than the export.
    fn export_name(&mut self, data: &[u8], output: &mut Vec<u8>) -> Result<Step, Violation> {
        let found = valid_name(data).and_then(|name| Some((name, self.find(name)?)));
        let (name, export) = found.ok_or(Violation::ExportName)?;
        output.extend_from_slice(&export.size_bytes().to_be_bytes());
        output.extend_from_slice(&transmission_flags(&export, self.structured).to_be_bytes());
        if !self.no_zeroes {
            output.extend_from_slice(&[0; PADDING_BYTES]);
        }
        Ok(self.enter(name, export))
    }

    /// INFO and GO.
    fn export_request(&mut self, option: u32, data: &[u8], output: &mut Vec<u8>) -> Step {
        let mut replies = Replies::to(option, output);
        let Some(request) = ExportRequest::parse(data) else {
            replies.error(reply::ERR_INVALID, "not a request for an export");
            return Step::More;
        };
        let Some(export) = self.find(request.name) else {
            replies.error(reply::ERR_UNKNOWN, "there is no export of this name");
            return Step::More;
        };
        replies.export(
            export.size_bytes(),
            transmission_flags(&export, self.structured),
        );
        if request.wants(info::NAME) {
            replies.text(info::NAME, request.name);
        }
        if request.wants(info::DESCRIPTION) {
            replies.text(info::DESCRIPTION, &export.description());
        }
        if request.wants(info::BLOCK_SIZE) {
            replies.block_size();
        }
        replies.acknowledge();
        match option {
            option::GO => self.enter(request.name, export),
            _ => Step::More,
        }
    }

    fn list_meta_context(&self, data: &[u8], replies: &mut Replies<'_>) {
        let Some(request) = MetaContextRequest::parse(data) else {
            return replies.error(reply::ERR_INVALID, "not a request for metadata contexts");
        };
        if self.find(request.name).is_none() {
            return replies.error(reply::ERR_UNKNOWN, "there is no export of this name");
        }
        if request.is_empty() || request.asks_for("base:") || request.asks_for(BASE_ALLOCATION) {
            replies.meta_context(0);
        }
        replies.acknowledge();
    }

    fn set_meta_context(&mut self, data: &[u8], replies: &mut Replies<'_>) {
        // Whatever comes of it, what was selected before is not any more.
        self.block_status_of = None;
        if !self.structured {
            return replies.error(reply::ERR_INVALID, "structured replies were not agreed on");
        }
        let Some(request) = MetaContextRequest::parse(data) else {
            return replies.error(reply::ERR_INVALID, "not a request for metadata contexts");
        };
        if self.find(request.name).is_none() {
            return replies.error(reply::ERR_UNKNOWN, "there is no export of this name");
        }
        if request.asks_for(BASE_ALLOCATION) {
            self.block_status_of = Some(request.name.to_owned());
            replies.meta_context(crate::wire::BASE_ALLOCATION_ID);
        }
        replies.acknowledge();
    }
}
