//! A tier on a device in memory that fails as it is told, with a copy that does not.

use coldpress_tier::{Device, DeviceError, Handle, Key, Memory, Segment, Slot, Tier};
use std::collections::BTreeMap;

pub const SEGMENT: usize = 4096;

/// A generator of chances (xorshift*).
pub struct Chance(pub u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16) % bound
    }
}

/// What a device does wrong, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A write is refused for want of space; some of it may be there.
    NoSpace,
    /// A write is refused; some of it may be there.
    WriteError,
    /// A write takes a part, and says so.
    ShortWrite,
    /// A write takes a part, and says that it took all.
    TornWrite,
    /// A write goes somewhere else.
    MisdirectedWrite,
    /// A write is not done, and what was there before stays: an older record is read.
    LostWrite,
    /// A bit of what is stored turns.
    BitRot,
    /// What was stored before in a segment comes back.
    Replay,
    /// A read is refused.
    ReadError,
    /// A read returns a part, and says so.
    ShortRead,
    /// A read returns what is somewhere else.
    MisdirectedRead,
}

pub struct Faulty {
    /// What a good device would hold.
    pub truth: Vec<u8>,
    /// What this one holds.
    pub bytes: Vec<u8>,
    /// What each segment held before it was written last.
    pub before: Vec<Vec<u8>>,
    /// The next call that fits does this.
    pub next: Option<Fault>,
    /// Every call that fits does this.
    pub always: Option<Fault>,
    /// It does not answer when it is read.
    pub is_away: bool,
    /// It answers so many reads more.
    pub answers: u64,
    /// How often it was read.
    pub reads: u64,
    pub chance: Chance,
}

impl Faulty {
    pub fn new(segments: usize, seed: u64) -> Self {
        Self {
            truth: vec![0; segments * SEGMENT],
            bytes: vec![0; segments * SEGMENT],
            before: vec![vec![0; SEGMENT]; segments],
            next: None,
            always: None,
            is_away: false,
            answers: u64::MAX,
            reads: 0,
            chance: Chance::new(seed),
        }
    }

    fn strikes(&mut self, faults: &[Fault]) -> Option<Fault> {
        let fits = |fault: &Fault| faults.contains(fault);
        let always = self.always.filter(fits);
        always.or_else(|| self.next.take_if(|fault| fits(fault)))
    }

    fn elsewhere(&mut self, offset: usize, length: usize) -> usize {
        loop {
            let most = (self.bytes.len() - length) as u64 + 1;
            let at = self.chance.below(most) as usize;
            if at != offset {
                return at;
            }
        }
    }
}

impl Device for Faulty {
    fn read_at(&mut self, offset: u64, into: &mut [u8]) -> Result<usize, DeviceError> {
        self.reads += 1;
        if self.is_away || self.answers == 0 {
            return Err(DeviceError::Unreachable);
        }
        self.answers -= 1;
        let (mut at, mut length) = (offset as usize, into.len());
        match self.strikes(&[Fault::ReadError, Fault::ShortRead, Fault::MisdirectedRead]) {
            Some(Fault::ReadError) => return Err(DeviceError::Io),
            Some(Fault::ShortRead) => length = self.chance.below(length as u64) as usize,
            Some(_) => at = self.elsewhere(at, length),
            None => {}
        }
        into[..length].copy_from_slice(&self.bytes[at..][..length]);
        Ok(length)
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<usize, DeviceError> {
        let at = offset as usize;
        let fault = self.strikes(&[
            Fault::NoSpace,
            Fault::WriteError,
            Fault::ShortWrite,
            Fault::TornWrite,
            Fault::MisdirectedWrite,
            Fault::LostWrite,
        ]);
        let part = self.chance.below(data.len() as u64) as usize;
        let segment = at / SEGMENT * SEGMENT;
        if at == segment {
            self.before[at / SEGMENT].copy_from_slice(&self.bytes[segment..][..SEGMENT]);
        }
        let taken = match fault {
            None => data.len(),
            Some(Fault::LostWrite | Fault::MisdirectedWrite) => 0,
            Some(_) => part,
        };
        self.bytes[at..][..taken].copy_from_slice(&data[..taken]);
        match fault {
            Some(Fault::NoSpace) => return Err(DeviceError::NoSpace),
            Some(Fault::WriteError) => return Err(DeviceError::Io),
            Some(Fault::ShortWrite) => {
                self.truth[at..][..part].copy_from_slice(&data[..part]);
                return Ok(part);
            }
            Some(Fault::MisdirectedWrite) => {
                let elsewhere = self.elsewhere(at, data.len());
                self.bytes[elsewhere..][..data.len()].copy_from_slice(data);
            }
            _ => {}
        }
        self.truth[at..][..data.len()].copy_from_slice(data);
        Ok(data.len())
    }

    fn discard(&mut self, _offset: u64, _length: u64) -> Result<(), DeviceError> {
        Ok(())
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
}

/// A tier, with what each record must hold.
pub struct Run {
    pub tier: Tier<'static, Faulty>,
    pub held: BTreeMap<u32, (u64, Vec<u8>)>,
    pub chance: Chance,
}

fn leaked<T: Clone>(value: T, count: usize) -> &'static mut [T] {
    Box::leak(vec![value; count].into_boxed_slice())
}

impl Run {
    pub fn new(segments: usize, slots: usize, seed: u64, daily_bytes: Option<u64>) -> Self {
        let memory = Memory {
            slots: leaked(Slot::default(), slots),
            segments: leaked(Segment::default(), segments),
            buffer: leaked(0, SEGMENT),
            scratch: leaked(0, 512 + Memory::SCRATCH_BYTES),
        };
        let key = Key::new(&[seed as u8; 32]);
        let device = Faulty::new(segments, seed);
        Self {
            tier: Tier::new(device, key, memory, daily_bytes, 0),
            held: BTreeMap::new(),
            chance: Chance::new(seed ^ 0x5EED),
        }
    }

    /// Puts a new record of some length. Whether it was taken.
    pub fn put(&mut self) -> Result<u32, coldpress_tier::Refused> {
        // Often alike in owner and length: an older record then differs by its number alone.
        let length = match self.chance.below(2) {
            0 => 1 + self.chance.below(self.tier.longest() as u64) as usize,
            _ => 240,
        };
        let seed = self.chance.below(u64::MAX >> 16);
        let bytes: Vec<u8> = (0..length as u64)
            .map(|n| (seed >> (n % 40)) as u8)
            .collect();
        let owner = 1 + self.chance.below(3);
        let handle = self.tier.put(owner, &bytes)?;
        let before = self.held.insert(handle.number(), (owner, bytes));
        assert!(before.is_none(), "one handle for two records");
        Ok(handle.number())
    }

    /// Reads a record, and compares it if it is returned.
    pub fn get(&mut self, number: u32) -> Result<(), coldpress_tier::Unreadable> {
        let (owner, expected) = &self.held[&number];
        let mut buffer = [0xA5; 600];
        let length = self
            .tier
            .get(Handle::of_number(number), *owner, &mut buffer)?;
        assert!(buffer[..length] == expected[..], "a wrong byte");
        Ok(())
    }

    pub fn remove(&mut self, number: u32) {
        let (owner, _) = self.held.remove(&number).unwrap();
        assert!(self.tier.remove(Handle::of_number(number), owner));
    }

    pub fn any(&mut self) -> Option<u32> {
        if self.held.is_empty() {
            return None;
        }
        let at = self
            .chance
            .below(u64::from(self.held.keys().last().copied()?) + 1) as u32;
        let next = self.held.range(at..).next();
        next.map(|(number, _)| *number)
    }
}
