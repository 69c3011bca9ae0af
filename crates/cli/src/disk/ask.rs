//! Asking a disk that is served.

use super::arguments::{DiskCommand, StatusArguments, TargetArguments};
use super::figures;
use super::info;
use super::place::{self, Served};
use super::protocol::{self, Answer, Request};
use crate::help;
use crate::own_name;
use crate::refusal::Refusal;
use crate::size::{format_bytes, format_count};
use crate::streams::{print, say};
use serde_json::Value;
use std::io;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// How long the answer to a question is waited for. That to an order is waited for as long as the disk is served:
/// recompressing all of a large one takes its time.
const PATIENCE: Duration = Duration::from_secs(60);

fn ask(disk: &Served, request: &Request) -> Result<Value, Refusal> {
    let answer = exchange(disk, request).map_err(|error| {
        Refusal::new(format!(
            "disk {} does not answer at {}: {error}",
            disk.name,
            disk.path.display()
        ))
    })?;
    match answer {
        Answer::Done(told) => Ok(told),
        Answer::Refused(why) => Err(Refusal::new(format!("disk {}: {why}", disk.name))),
    }
}

fn exchange(disk: &Served, request: &Request) -> io::Result<Answer> {
    let stream = UnixStream::connect(&disk.path)?;
    stream.set_read_timeout(request.is_question().then_some(PATIENCE))?;
    stream.set_write_timeout(Some(protocol::PATIENCE))?;
    protocol::send(&stream, request)?;
    protocol::receive(&stream)
}

/// Shows disks.
pub fn status(arguments: &StatusArguments) -> Result<(), Refusal> {
    let wanted = arguments.name.as_ref().or(arguments.disk.as_ref());
    let disks = match wanted {
        Some(name) => vec![place::find(Some(name))?],
        None => place::all(),
    };
    let mut told = Vec::new();
    for disk in &disks {
        match ask(disk, &Request::Status) {
            Ok(figures) => told.push(figures),
            Err(refusal) if wanted.is_some() => return Err(refusal),
            Err(refusal) => say!("{refusal}"),
        }
    }
    match told.as_slice() {
        [one] if arguments.json && wanted.is_some() => print(&format!("{one:#}\n")),
        _ if arguments.json => print(&format!("{:#}\n", Value::from(told))),
        [] => {
            say!(
                "no disk of yours is served; serve one with: {} disk serve --size 1G --socket PATH",
                own_name::get()
            );
            Ok(())
        }
        _ if arguments.verbose => {
            let width = help::table_width();
            let all = told.iter().map(|disk| figures::lines(disk, width));
            let all: Vec<String> = all.collect();
            print(&all.join("\n"))
        }
        _ => print(&figures::table(&told, help::table_width())),
    }
}

/// Has a disk do something.
pub fn order(command: &DiskCommand) -> Result<(), Refusal> {
    let (target, request) = request_of(command);
    let disk = place::find(target.disk.as_deref())?;
    let told = ask(&disk, &request)?;
    match target.json {
        true => print(&format!("{told:#}\n")),
        false if request == Request::Info => print(&info::lines(&told)),
        false => print(&format!("{}: {}\n", disk.name, told_of(&request, &told))),
    }
}

fn request_of(command: &DiskCommand) -> (&TargetArguments, Request) {
    match command {
        DiskCommand::Info(target) => (target, Request::Info),
        DiskCommand::Snapshot(of) => {
            let name = of.name.clone();
            (&of.target, Request::Snapshot { name })
        }
        DiskCommand::Drop(of) => {
            let name = of.name.clone();
            (&of.target, Request::Drop { name })
        }
        DiskCommand::Compact(target) => (target, Request::Compact),
        DiskCommand::Reset(of) => (&of.target, Request::Reset { force: of.force }),
        DiskCommand::Limit(of) => (&of.target, Request::Limit { bytes: of.limit.0 }),
        DiskCommand::Writeback(of) => (&of.target, Request::Writeback { which: of.which }),
        DiskCommand::Flush(target) => (target, Request::Flush),
        DiskCommand::Idle(target) => (target, Request::Idle),
        DiskCommand::Recompress(target) => (target, Request::Recompress),
        DiskCommand::Serve(_) | DiskCommand::Status(_) => unreachable!("no orders"),
    }
}

/// What was done, for people.
fn told_of(request: &Request, told: &Value) -> String {
    let number = |key: &str| told[key].as_u64().unwrap_or(0);
    match request {
        Request::Status | Request::Info | Request::GetInfo { .. } => String::new(),
        Request::Snapshot { name } => format!("snapshot {name} is served"),
        Request::Drop { name } => format!("snapshot {name} is dropped"),
        Request::Compact => format!("{} frames fewer", format_count(number("pages_compacted"))),
        Request::Reset { .. } => "all is forgotten".to_owned(),
        Request::Limit { bytes: None } => "no limit".to_owned(),
        Request::Limit { bytes: Some(bytes) } => format!("limit {}", format_bytes(*bytes)),
        Request::Writeback { .. } => format!(
            "{} pages written back, {} held",
            format_count(number("evicted_pages")),
            format_count(number("stored_pages"))
        ),
        Request::Flush => format!(
            "{} pages written back",
            format_count(number("written_back_pages"))
        ),
        Request::Idle => format!(
            "{} → {}",
            format_bytes(number("mem_used_before")),
            format_bytes(number("mem_used_total"))
        ),
        Request::Recompress => format!(
            "{} pages stored anew, {} fewer",
            format_count(number("pages")),
            format_bytes(number("saved_bytes"))
        ),
    }
}
