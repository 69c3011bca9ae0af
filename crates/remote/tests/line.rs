//! Promise: a store that fails is tried again as often as was said, then left alone for a while, and costs nothing that
//! was taken.

use crate::common::fake::Fake;
use crate::common::{SEGMENT, device_with, patience, wait_until};
use coldpress_remote::{Failure, Patience, RemoteDevice};
use coldpress_tier::{Device, DeviceError};
use std::time::{Duration, Instant};

const WHOLE: [u8; SEGMENT] = [7; SEGMENT];

/// A device whose segment 0 is gathered.
fn gathering() -> (Fake, RemoteDevice) {
    gathering_with(patience())
}

/// As [`gathering`], with a rest after a failure that is not over before the test is.
fn gathering_with_long_rest() -> (Fake, RemoteDevice) {
    let rest = Duration::from_secs(3600);
    gathering_with(Patience {
        rest,
        longest_rest: rest,
        ..patience()
    })
}

fn gathering_with(patience: Patience) -> (Fake, RemoteDevice) {
    let fake = Fake::default();
    let mut device = device_with(Box::new(fake.clone()), None, patience);
    assert_eq!(device.write_at(0, &WHOLE), Ok(SEGMENT));
    assert_eq!(fake.objects(), 0, "it is gathered, and put later");
    (fake, device)
}

fn at(segment: u64) -> u64 {
    segment * SEGMENT as u64
}

#[test]
fn what_may_pass_is_tried_again_and_what_may_not_is_not() {
    for failure in [Failure::Timeout, Failure::Unreachable, Failure::Busy] {
        let (fake, mut device) = gathering();
        fake.0.lock().unwrap().next = Some((failure, patience().retries));
        assert_eq!(device.sync(), Ok(()), "{failure:?}");
        let figures = device.counts().figures();
        assert_eq!((figures.retries, figures.puts, figures.errors), (1, 1, 1));
        assert_eq!(figures.timeouts, u64::from(failure == Failure::Timeout));
    }
    for failure in [Failure::Denied, Failure::NoSpace, Failure::Other] {
        let (fake, mut device) = gathering();
        fake.0.lock().unwrap().next = Some((failure, 1));
        let refused = match failure {
            Failure::NoSpace => DeviceError::NoSpace,
            _ => DeviceError::Io,
        };
        assert_eq!(device.sync(), Err(refused), "{failure:?}");
        assert_eq!(device.counts().figures().retries, 0);
    }
}

#[test]
fn after_a_failure_writes_are_refused_at_once_and_reads_are_tried_once() {
    let (fake, mut device) = gathering_with_long_rest();
    device.write_at(at(1), &WHOLE).unwrap();
    fake.fails(Some(Failure::Unreachable));
    let calls = || fake.calls();
    let before = calls();
    assert_eq!(device.sync(), Err(DeviceError::Io));
    assert_eq!(calls() - before, 1 + patience().retries);
    let before = calls();
    assert_eq!(device.sync(), Err(DeviceError::Io));
    assert_eq!(device.write_at(at(2), &WHOLE), Err(DeviceError::Io));
    assert_eq!(device.discard(at(0), SEGMENT as u64), Ok(()));
    assert_eq!(calls(), before, "the store is left alone");
    let mut byte = [0];
    let read = device.read_at(at(0), &mut byte);
    assert_eq!(read, Err(DeviceError::Unreachable));
    assert_eq!(calls() - before, 1, "a read tries once");
    assert!(device.counts().figures().refused_puts >= 2);
    // Segment 1 was not lost, and is put once the rest is over, which a read ends.
    assert_eq!(device.read_at(at(1) + 5, &mut byte), Ok(1));
    assert_eq!(byte, [7]);
    fake.fails(None);
    assert_eq!(device.read_at(at(0), &mut byte), Ok(1));
    assert_eq!(device.sync(), Ok(()));
    device.write_at(at(2), &WHOLE).unwrap();
    assert_eq!(device.read_at(at(1), &mut byte), Ok(1));
}

#[test]
fn a_read_that_is_answered_ends_the_rest() {
    for (failure, is_over) in [(Failure::Timeout, true), (Failure::NoSpace, false)] {
        let (fake, mut device) = gathering_with_long_rest();
        device.write_at(at(1), &WHOLE).unwrap();
        let counts = device.counts();
        let failing = || counts.figures().failing;
        assert_eq!(failing(), None);
        fake.fails(Some(failure));
        device.sync().unwrap_err();
        assert_eq!(failing(), Some(failure));
        fake.fails(None);
        let mut byte = [0];
        device.read_at(at(0), &mut byte).unwrap();
        assert_eq!(failing(), (!is_over).then_some(failure));
        assert_eq!(device.sync().is_ok(), is_over, "{failure:?}");
    }
}

/// The bug: a store that had come back empty was told to be away, as all that it answered was that objects are missing.
#[test]
fn a_store_that_has_forgotten_works() {
    let (fake, mut device) = gathering_with_long_rest();
    device.write_at(at(1), &WHOLE).unwrap();
    fake.fails(Some(Failure::Unreachable));
    device.sync().unwrap_err();
    fake.fails(None);
    fake.0.lock().unwrap().objects.clear();
    assert_eq!(device.read_at(at(0), &mut [0]), Err(DeviceError::Io));
    let figures = device.counts().figures();
    assert_eq!((figures.missing, figures.failing), (1, None));
    assert_eq!(device.sync(), Ok(()));
}

#[test]
fn the_rest_grows_and_has_an_end() {
    let (fake, mut device) = gathering();
    fake.fails(Some(Failure::Denied));
    let since = Instant::now();
    let before = fake.calls();
    while fake.calls() - before < 10 {
        device.sync().unwrap_err();
        std::thread::sleep(Duration::from_millis(1));
    }
    // 50, 100, and seven times 200 ms, or more on a machine that is busy. Without an end it would be 25 s.
    let took = since.elapsed();
    assert!(took >= Duration::from_millis(1550), "{took:?}");
    assert!(took < Duration::from_secs(25), "{took:?}");
    fake.fails(None);
    wait_until("taken", || device.sync().is_ok());
    assert_eq!(device.counts().figures().failing, None);
}

#[test]
fn at_the_end_nothing_of_the_run_is_left() {
    let (fake, mut device) = gathering();
    let other = "test/another-run/0".to_owned();
    fake.0
        .lock()
        .unwrap()
        .objects
        .insert(other.clone(), vec![1]);
    for segment in 1..5 {
        device.write_at(at(segment), &WHOLE).unwrap();
    }
    device.discard(at(1), 2 * SEGMENT as u64).unwrap();
    assert_eq!(fake.objects(), 1 + 2, "0 and 3; 4 is gathered");
    let counts = device.counts();
    drop(device);
    assert!(fake.0.lock().unwrap().objects.contains_key(&other));
    assert_eq!((fake.objects(), counts.figures().left_objects), (1, 0));
    let (fake, mut device) = gathering();
    device.sync().unwrap();
    fake.fails(Some(Failure::Timeout));
    let counts = device.counts();
    drop(device);
    assert_eq!(counts.figures().left_objects, 1);
}

#[test]
fn an_object_is_written_from_its_start_to_its_end() {
    let (fake, mut device) = gathering();
    let mut read = [0; 8];
    assert_eq!(device.write_at(at(1) + 1, &[1]), Err(DeviceError::Io));
    assert_eq!(device.write_at(at(1), &[1, 2]), Ok(2));
    assert_eq!(device.write_at(at(1) + 2, &[3]), Ok(1));
    assert_eq!(
        device.read_at(at(1) + 1, &mut read),
        Ok(2),
        "no more is there"
    );
    assert_eq!(device.write_at(at(2) - 1, &[1, 2]), Err(DeviceError::Io));
    device.sync().unwrap();
    assert_eq!(
        device.write_at(at(1) + 3, &[4]),
        Ok(1),
        "it goes on after a sync"
    );
    device.sync().unwrap();
    device.write_at(at(2), &[9]).unwrap();
    assert_eq!(device.read_at(at(1), &mut read), Ok(4));
    assert_eq!(read[..4], [1, 2, 3, 4]);
    assert_eq!(device.read_at(at(5), &mut read), Err(DeviceError::Io));
    let beyond = at(crate::common::SEGMENTS as u64);
    assert_eq!(device.write_at(beyond, &[1]), Err(DeviceError::NoSpace));
    assert_eq!(fake.objects(), 2);
}

#[test]
fn a_store_that_lies_is_not_used() {
    struct Liar(Fake);
    impl coldpress_remote::Store for Liar {
        fn put(&mut self, name: &str, _: &[u8]) -> Result<(), coldpress_remote::StoreError> {
            self.0.put(name, &[5; 99])
        }
        fn get(
            &mut self,
            name: &str,
            offset: u64,
            into: &mut [u8],
        ) -> Result<usize, coldpress_remote::StoreError> {
            self.0.get(name, offset, into)
        }
        fn delete(&mut self, names: &[String]) -> Result<(), coldpress_remote::StoreError> {
            self.0.delete(names)
        }
    }
    let liar = Box::new(Liar(Fake::default()));
    let refused = RemoteDevice::new(liar, "", (4, SEGMENT), patience(), None);
    let told = refused.err().unwrap().to_string();
    assert!(told.contains("other bytes came back"), "{told}");
}
