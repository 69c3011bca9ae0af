//! What a client sends, as bytes.

pub const EXPORT_NAME: u32 = 1;
pub const ABORT: u32 = 2;
pub const LIST: u32 = 3;
pub const INFO: u32 = 6;
pub const GO: u32 = 7;
pub const STRUCTURED_REPLY: u32 = 8;
pub const LIST_META_CONTEXT: u32 = 9;
pub const SET_META_CONTEXT: u32 = 10;

pub const ACK: u32 = 1;
pub const ERROR: u32 = 1 << 31;

pub const READ: u16 = 0;
pub const WRITE: u16 = 1;
pub const DISC: u16 = 2;
pub const FLUSH: u16 = 3;
pub const TRIM: u16 = 4;
pub const CACHE: u16 = 5;
pub const WRITE_ZEROES: u16 = 6;
pub const BLOCK_STATUS: u16 = 7;

pub const FUA: u16 = 1;
pub const NO_HOLE: u16 = 2;
pub const DF: u16 = 4;
pub const REQ_ONE: u16 = 8;
pub const FAST_ZERO: u16 = 16;

/// An option, as it is sent.
pub fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).unwrap();
    [
        b"IHAVEOPT",
        &number.to_be_bytes()[..],
        &length.to_be_bytes(),
        data,
    ]
    .concat()
}

/// Data of GO and INFO.
pub fn export_request(name: &str, infos: &[u16]) -> Vec<u8> {
    let length = u32::try_from(name.len()).unwrap().to_be_bytes();
    let count = u16::try_from(infos.len()).unwrap().to_be_bytes();
    let infos: Vec<u8> = infos.iter().flat_map(|info| info.to_be_bytes()).collect();
    [&length[..], name.as_bytes(), &count, &infos].concat()
}

/// Data of the options for metadata contexts.
pub fn meta_request(name: &str, queries: &[&str]) -> Vec<u8> {
    let counted = |text: &str| {
        [
            &u32::try_from(text.len()).unwrap().to_be_bytes()[..],
            text.as_bytes(),
        ]
        .concat()
    };
    let count = u32::try_from(queries.len()).unwrap().to_be_bytes();
    let queries: Vec<u8> = queries.iter().flat_map(|query| counted(query)).collect();
    [counted(name), count.to_vec(), queries].concat()
}

/// A request, as it is sent, without payload.
pub fn request(flags: u16, command: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let magic = 0x2560_9513_u32.to_be_bytes();
    let (flags, command) = (flags.to_be_bytes(), command.to_be_bytes());
    let (cookie, offset) = (cookie.to_be_bytes(), offset.to_be_bytes());
    [
        &magic[..],
        &flags,
        &command,
        &cookie,
        &offset,
        &length.to_be_bytes(),
    ]
    .concat()
}

/// Flags, options and requests of a client that behaves, with everything in them.
pub fn conversation() -> Vec<u8> {
    let name = "disk";
    let write = |flags, offset, data: &[u8]| {
        [&request(flags, WRITE, 3, offset, data.len() as u32), data].concat()
    };
    [
        3_u32.to_be_bytes().to_vec(),
        option(LIST, &[]),
        option(INFO, &export_request("", &[3, 1, 2])),
        option(STRUCTURED_REPLY, &[]),
        option(LIST_META_CONTEXT, &meta_request(name, &["base:", "x:y"])),
        option(SET_META_CONTEXT, &meta_request(name, &["base:allocation"])),
        option(GO, &export_request(name, &[3])),
        write(FUA, 5000, &[1; 700]),
        request(0, READ, 4, 4096, 8192),
        request(DF, READ, 5, 0, 16_384),
        request(0, TRIM, 6, 5100, 300),
        request(FAST_ZERO, WRITE_ZEROES, 7, 5000, 60),
        request(0, BLOCK_STATUS, 8, 0, 20_480),
        request(REQ_ONE, BLOCK_STATUS, 9, 100, 5000),
        request(0, CACHE, 10, 0, 512),
        request(0, FLUSH, 11, 0, 0),
        write(0, u64::MAX, &[2; 40]),
        request(0, READ, 12, 70_000, 10_000),
        request(0, DISC, 13, 0, 0),
    ]
    .concat()
}
