//! Encryption and the check of each record: ChaCha20-Poly1305 (RFC 8439).
//!
//! Invariants:
//! * N1 No nonce is used twice with a key. A nonce is a number that rises by one with each record that is sealed, in
//!   this run; a record that is moved is sealed anew. The number is checked not to wrap.
//! * N2 A key is used by one [`Sealer`]: it is moved into it. Copies of it are in [`Opener`]s only, which seal nothing. It
//!   comes from the caller, fresh in each run, and is wiped when it is dropped.
//!
//! What is authenticated besides the bytes: whose record it is, and its length. The number is the nonce, so a record
//! that is another's, or an older one of the same owner at the same place, does not open.

use chacha20poly1305::aead::AeadInOut;
use chacha20poly1305::{ChaCha20Poly1305, KeyInit, Nonce, Tag};

/// Bytes that sealing adds.
pub(crate) const TAG_BYTES: usize = 16;

/// The key of one run: 32 bytes of the kernel's random numbers, that are used for nothing else.
pub struct Key(ChaCha20Poly1305);

impl Key {
    /// The key of these bytes.
    pub fn new(random: &[u8; 32]) -> Self {
        Self(ChaCha20Poly1305::new(random.into()))
    }
}

/// Opens records that one sealer has sealed, and seals none.
#[derive(Clone)]
pub struct Opener(ChaCha20Poly1305);

/// Seals and opens records.
pub(crate) struct Sealer {
    opener: Opener,
    /// The number of the last record that was sealed.
    last: u64,
}

impl Sealer {
    pub(crate) fn new(key: Key) -> Self {
        Self {
            opener: Opener(key.0),
            last: 0,
        }
    }

    pub(crate) fn opener(&self) -> &Opener {
        &self.opener
    }

    /// Encrypts a record in place, whose last [`TAG_BYTES`] become its tag. Its number.
    ///
    /// # Panics
    /// After 2⁶⁴ records, which no machine lives to see: rather than with a nonce that was used (N1).
    pub(crate) fn seal(&mut self, owner: u64, record: &mut [u8]) -> u64 {
        let number = self
            .last
            .checked_add(1)
            .expect("N1: a nonce is never used twice");
        self.last = number;
        let length = record.len() - TAG_BYTES;
        let (bytes, room) = record.split_at_mut(length);
        let tag = self.opener.0.encrypt_inout_detached(
            &nonce(number),
            &about(owner, length),
            bytes.into(),
        );
        // Only a record of 256 GiB is refused.
        room.copy_from_slice(&tag.expect("a record is short"));
        number
    }
}

impl Opener {
    /// Decrypts a record in place. `false`: it is not the one that was sealed under this number for this owner, in
    /// this length.
    pub(crate) fn open(&self, number: u64, owner: u64, record: &mut [u8]) -> bool {
        let Some(length) = record.len().checked_sub(TAG_BYTES) else {
            return false;
        };
        let (bytes, tag) = record.split_at_mut(length);
        let Ok(tag) = Tag::try_from(&*tag) else {
            return false;
        };
        let opened = self.0.decrypt_inout_detached(
            &nonce(number),
            &about(owner, length),
            bytes.into(),
            &tag,
        );
        opened.is_ok()
    }
}

fn nonce(number: u64) -> Nonce {
    let mut nonce = *b"........tier";
    nonce[..8].copy_from_slice(&number.to_le_bytes());
    nonce.into()
}

fn about(owner: u64, length: usize) -> [u8; 16] {
    let mut about = [0; 16];
    about[..8].copy_from_slice(&owner.to_le_bytes());
    about[8..].copy_from_slice(&(length as u64).to_le_bytes());
    about
}
