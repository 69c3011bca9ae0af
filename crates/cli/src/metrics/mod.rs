//! `coldpress metrics`: the figures of all processes under a pager, as OpenMetrics.
//!
//! Once to standard output, into a file again and again, or to whoever asks by HTTP. What is read is what `status` reads, by
//! the same ways, so an ordinary user gets the figures of his own programs.
//!
//! | file | holds |
//! |---|---|
//! | `names`, `name_tables` | under which name each figure stands |
//! | `snapshot` | the processes as they are now |
//! | `collector`, `fault_histogram` | the snapshot as metric families |
//! | `exposition` | these as text, in either format |
//! | `negotiation`, `http` | which format, and the answer to a request |
//! | `listen`, `server`, `connection` | sockets, clients |
//! | `textfile` | the file of node_exporter's collector |
//! | `ending` | the signals that end it |
//!
//! Deliberately absent: passwords, encryption, compression of answers (a proxy does that better), pushing, and a memory of
//! earlier figures.

mod collector;
mod connection;
#[cfg(test)]
mod document;
mod ending;
mod exposition;
mod fault_histogram;
mod http;
mod listen;
mod name_tables;
mod names;
mod negotiation;
mod server;
mod snapshot;
mod textfile;

use crate::duration;
use crate::refusal::Refusal;
use crate::streams::{print, say};
use clap::Args;
use ending::Ending;
use exposition::Format;
use http::Hosts;
use listen::Socket;
use server::Listener;
use std::path::PathBuf;
use std::time::Duration;

/// The help text behind the options.
pub const HELP: &str = "\
Examples:
  coldpress metrics             print the figures once
  coldpress metrics --listen    serve http://127.0.0.1:10219/metrics
  coldpress metrics --listen 9200 --socket /run/user/1000/coldpress.sock
  coldpress metrics --textfile /var/lib/node-exporter/c.prom --interval 15s

Everybody who can reach the address reads the figures: on loopback every user of this machine. All names: docs/metrics.md";

/// No comment of the option, since brackets in comments are links.
const LISTEN_HELP: &str = "\
Serve them by HTTP at this loopback address: 127.0.0.1:9119, [::1]:9119, or a port alone \
[without one: 127.0.0.1:10219]";

/// Arguments of `coldpress metrics`.
#[derive(Debug, Args)]
pub struct MetricsArguments {
    #[arg(long, help = LISTEN_HELP, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = listen::DEFAULT)]
    listen: Option<String>,
    /// Allow an address that other machines can reach: all of them can read the figures
    #[arg(long, requires = "listen")]
    allow_remote: bool,
    /// Serve figures by HTTP on this Unix socket
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Write figures to this file, for the textfile collector of node_exporter
    #[arg(long, value_name = "FILE", conflicts_with_all = ["listen", "socket"])]
    textfile: Option<PathBuf>,
    /// With --textfile: write the file at this interval, until a signal ends it [default: once]
    #[arg(long, value_name = "DURATION", requires = "textfile", allow_hyphen_values = true, value_parser = duration::parse_milliseconds)]
    interval: Option<u64>,
    /// On standard output: openmetrics, or the older text format of Prometheus
    #[arg(long, value_name = "NAME", default_value = "openmetrics", value_parser = exposition::parse_format, conflicts_with_all = ["listen", "socket", "textfile"])]
    format: Format,
}

/// Prints, writes or serves the figures.
pub fn metrics(arguments: &MetricsArguments) -> Result<u8, Refusal> {
    match (&arguments.textfile, arguments.interval) {
        (Some(file), None) => textfile::once(file)?,
        (Some(file), Some(milliseconds)) => {
            let interval = Duration::from_millis(milliseconds);
            textfile::again_and_again(file, interval, &take_signals()?)?;
        }
        (None, _) if arguments.listen.is_none() && arguments.socket.is_none() => {
            print(&exposition::now(arguments.format))?;
        }
        (None, _) => serve(arguments)?,
    }
    Ok(0)
}

fn take_signals() -> Result<Ending, Refusal> {
    Ending::take().map_err(|error| Refusal::new(format!("cannot wait for signals: {error}")))
}

fn serve(arguments: &MetricsArguments) -> Result<(), Refusal> {
    let ending = take_signals()?;
    let mut listeners = Vec::new();
    let mut at = Vec::new();
    if let Some(address) = &arguments.listen {
        let hosts = if arguments.allow_remote {
            Hosts::Any
        } else {
            Hosts::Loopback
        };
        let listener = listen::tcp(address, hosts)?;
        if let Ok(address) = listener.local_addr() {
            at.push(format!("http://{address}/metrics"));
        }
        listeners.push(Listener::Tcp(listener, hosts));
    }
    if let Some(path) = &arguments.socket {
        listeners.push(Listener::Unix(Socket::bind(path)?));
        at.push(path.display().to_string());
    }
    say!("metrics are at {}", at.join(" and "));
    server::serve(&listeners, &ending);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        metrics: MetricsArguments,
    }

    fn parse(line: &str) -> Result<MetricsArguments, clap::Error> {
        Line::try_parse_from(line.split(' ')).map(|line| line.metrics)
    }

    #[test]
    fn an_address_may_be_left_out_before_another_option() {
        let read = parse("metrics --listen --socket /x").unwrap();
        assert_eq!(read.listen.as_deref(), Some(listen::DEFAULT));
        assert!(read.socket.is_some());
        let read = parse("metrics --listen 9200 --allow-remote").unwrap();
        assert_eq!(read.listen.as_deref(), Some("9200"));
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        for line in [
            "metrics --textfile x --listen",
            "metrics --interval 5s",
            "metrics --allow-remote",
            "metrics --listen --format prometheus",
            "metrics --format json",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
