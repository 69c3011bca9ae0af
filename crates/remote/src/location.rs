//! Where a store is: `redis://…`, `rediss://…` and `s3://…`, taken apart.

use crate::line::Patience;
use std::fmt;
use std::time::Duration;

/// Where a store is, and how long it is waited for. Neither `Debug` nor `Display` tell a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Location {
    pub(crate) place: Place,
    /// What the names of objects begin with.
    pub(crate) prefix: String,
    pub(crate) patience: Patience,
    shown: String,
}

#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Redis(RedisPlace),
    S3(S3Place),
}

/// A Redis or Valkey server, or a node of a cluster.
#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(not(feature = "redis"), allow(dead_code))]
pub(crate) struct RedisPlace {
    pub is_encrypted: bool,
    pub is_cluster: bool,
    pub host: String,
    pub port: u16,
    pub user: Option<String>,
    pub password: Option<String>,
    pub database: i64,
}

/// A bucket of S3, or of a store that is compatible with it.
#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(not(feature = "s3"), allow(dead_code))]
pub(crate) struct S3Place {
    pub bucket: String,
    /// `None`: Amazon's, of the region.
    pub endpoint: Option<String>,
    pub region: String,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Location({:?})", self.shown)
    }
}

/// Whether a text is meant as the location of a store, and not as a path.
pub fn is_location(text: &str) -> bool {
    let scheme = text.split_once("://").map(|(scheme, _)| scheme);
    let is_scheme =
        |scheme: &str| !scheme.is_empty() && scheme.bytes().all(|b| b.is_ascii_alphanumeric());
    scheme.is_some_and(is_scheme)
}

/// The settings that a location may have.
const SETTINGS: [&str; 6] = [
    "timeout", "retries", "prefix", "cluster", "endpoint", "region",
];

/// A location as it may be shown: without what may be a user or a password.
pub fn shown(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        return text.to_owned();
    };
    // A password with an unescaped slash or a second @ in it is hidden, too.
    let (login, rest) = match rest.rsplit_once('@') {
        Some((_, rest)) => ("***@", rest),
        None => ("", rest),
    };
    let (place, settings) = match rest.split_once('?') {
        Some((place, settings)) => (place, Some(settings)),
        None => (rest, None),
    };
    let settings = settings.map(|settings| {
        let shown = settings
            .split('&')
            .map(|setting| match setting.split_once('=') {
                Some((name, _)) if !SETTINGS.contains(&name) => format!("{name}=***"),
                _ => setting.to_owned(),
            });
        format!("?{}", shown.collect::<Vec<_>>().join("&"))
    });
    format!("{scheme}://{login}{place}{}", settings.unwrap_or_default())
}

/// The forms, for messages.
const FORMS: &str = "write redis://HOST:PORT, redis://USER:PASSWORD@HOST:PORT/DATABASE?cluster=1, or \
                     s3://BUCKET/PREFIX?endpoint=http://HOST:PORT&region=REGION";

impl Location {
    /// Takes a location apart.
    ///
    /// # Errors
    /// What is wrong, and what is right, without what may be secret.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut query = Query::parse(query)?;
        let mut patience = Patience::default();
        if let Some(timeout) = query.take("timeout") {
            patience.timeout = duration(&timeout)?;
        }
        if let Some(retries) = query.take("retries") {
            let number = retries.parse().ok().filter(|retries| *retries <= 20);
            patience.retries = number.ok_or("retries: write a number, at most 20")?;
        }
        let (place, prefix) = match scheme {
            "redis" | "rediss" => {
                let prefix = query.take("prefix");
                let place = redis_place(scheme == "rediss", rest, &mut query)?;
                let prefix = prefix.unwrap_or_else(|| "coldpress".to_owned());
                (Place::Redis(place), prefix)
            }
            "s3" => {
                let (place, prefix) = s3_place(rest, &mut query)?;
                (Place::S3(place), prefix)
            }
            _ => return Err(format!("{scheme:?} names no store that is known; {FORMS}")),
        };
        if let Some(name) = query.any() {
            return Err(format!("there is no setting {name:?} of a store; {FORMS}"));
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
        if !prefix.chars().all(is_plain) || prefix.len() > 200 {
            return Err(
                "the prefix may have letters, digits and -_./ in it, at most 200".to_owned(),
            );
        }
        Ok(Self {
            place,
            prefix: prefix.trim_matches('/').to_owned(),
            patience,
            shown: shown(text),
        })
    }

    /// How long the store is waited for.
    pub fn patience(&self) -> Patience {
        self.patience
    }

    /// A command that deletes the objects of a run, which its name begins: for a run that was killed.
    pub fn removal(&self, run: &str) -> String {
        match &self.place {
            Place::Redis(place) => {
                let tls = if place.is_encrypted { " --tls" } else { "" };
                let RedisPlace {
                    host,
                    port,
                    database,
                    ..
                } = place;
                if place.is_cluster {
                    return format!(
                        "redis-cli{tls} --cluster call {host}:{port} EVAL \"for _, k in \
                         ipairs(redis.call('KEYS', '{run}/*')) do redis.call('UNLINK', k) end\" 0 \
                         --cluster-only-masters"
                    );
                }
                let cli = format!("redis-cli -h {host} -p {port} -n {database}{tls}");
                format!("{cli} --scan --pattern '{run}/*' | xargs -r -n 500 {cli} unlink")
            }
            Place::S3(place) => {
                let endpoint = place.endpoint.as_ref();
                let endpoint = endpoint.map(|url| format!(" --endpoint-url {}", shown(url)));
                format!(
                    "aws s3 rm --recursive{} s3://{}/{run}/",
                    endpoint.unwrap_or_default(),
                    place.bucket
                )
            }
        }
    }
}

fn redis_place(is_encrypted: bool, rest: &str, query: &mut Query) -> Result<RedisPlace, String> {
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    if path.contains('@') {
        return Err("a / in a password is written %2F".to_owned());
    }
    let (login, address) = match authority.rsplit_once('@') {
        Some((login, address)) => (Some(login), address),
        None => (None, authority),
    };
    let (user, password) = login.map_or(("", None), |login| match login.split_once(':') {
        Some((user, password)) => (user, Some(password)),
        None => (login, None),
    });
    let (host, port) = host_and_port(address, 6379)?;
    let database = match path {
        "" => Ok(0),
        path => path
            .parse()
            .ok()
            .filter(|number| *number >= 0)
            .ok_or("what follows the slash is the number of a database"),
    }?;
    let is_cluster = match query.take("cluster").as_deref() {
        None | Some("0") => false,
        Some("1") => true,
        Some(_) => return Err("cluster: write cluster=1 for a cluster".to_owned()),
    };
    if is_cluster && database != 0 {
        return Err("a cluster has no database but 0".to_owned());
    }
    let decoded = |text: &str| match text {
        "" => Ok(None),
        text => decode(text).map(Some),
    };
    Ok(RedisPlace {
        is_encrypted,
        is_cluster,
        host,
        port,
        user: decoded(user)?,
        password: decoded(password.unwrap_or_default())?,
        database,
    })
}

fn s3_place(rest: &str, query: &mut Query) -> Result<(S3Place, String), String> {
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let is_of_a_bucket = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if bucket.is_empty() || !bucket.chars().all(is_of_a_bucket) {
        return Err(
            "s3:// is followed by the name of a bucket, of letters, digits and -._ (credentials are in \
             AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY)"
                .to_owned(),
        );
    }
    let endpoint = query.take("endpoint");
    if let Some(endpoint) = &endpoint {
        let host = endpoint
            .strip_prefix("http://")
            .or_else(|| endpoint.strip_prefix("https://"));
        if host.is_none_or(|host| host.is_empty() || host.contains('@')) {
            return Err(
                "endpoint: write http://HOST:PORT or https://HOST, without a login".to_owned(),
            );
        }
    }
    let region = query.take("region");
    let place = S3Place {
        bucket: bucket.to_owned(),
        endpoint,
        region: region.unwrap_or_else(|| "us-east-1".to_owned()),
    };
    Ok((place, decode(prefix)?))
}

/// `host`, `host:port`, `[address]:port`.
fn host_and_port(address: &str, default: u16) -> Result<(String, u16), String> {
    let (host, port) = match address.strip_prefix('[') {
        Some(rest) => rest.split_once(']').ok_or("a [ has no ]")?,
        None => match address.rfind(':') {
            Some(at) => address.split_at(at),
            None => (address, ""),
        },
    };
    let is_of_a_host = |c: char| c.is_ascii_alphanumeric() || "-._:%".contains(c);
    if host.is_empty() || !host.chars().all(is_of_a_host) {
        return Err(format!("the name of the host is missing; {FORMS}"));
    }
    let port = match port {
        "" => Ok(default),
        port => port.trim_start_matches(':').parse().map_err(|_| {
            "what follows the host's colon is no port (a : or @ in a password is written %3A or %40)"
        }),
    };
    Ok((host.to_owned(), port?))
}

/// What is behind the question mark.
struct Query(Vec<(String, String)>);

impl Query {
    fn parse(text: &str) -> Result<Self, String> {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decode(name)?, decode(value)?))
        });
        pairs.collect::<Result<_, String>>().map(Self)
    }

    fn take(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.swap_remove(at).1)
    }

    fn any(&self) -> Option<&str> {
        self.0.first().map(|(name, _)| name.as_str())
    }
}

fn decode(text: &str) -> Result<String, String> {
    let wrong = || "a % is followed by two digits to the base of sixteen, of UTF-8".to_owned();
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || {
            let digit = char::from(rest.next()?).to_digit(16)?;
            u8::try_from(digit).ok()
        };
        let high = digit().ok_or_else(wrong)?;
        bytes.push(high << 4 | digit().ok_or_else(wrong)?);
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

/// `500ms`, `2s`; at most a minute.
fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 1),
        None => (text.strip_suffix('s').unwrap_or(text), 1000),
    };
    let milliseconds = number.parse::<u64>().ok();
    let milliseconds = milliseconds.and_then(|number| number.checked_mul(unit));
    match milliseconds {
        Some(milliseconds @ 10..=60_000) => Ok(Duration::from_millis(milliseconds)),
        _ => Err("timeout: write 10ms to 60s".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redis(text: &str) -> RedisPlace {
        match Location::parse(text).unwrap().place {
            Place::Redis(place) => place,
            Place::S3(_) => panic!("{text}"),
        }
    }

    #[test]
    fn a_redis_is_taken_apart() {
        let place = redis("redis://h");
        assert!(!place.is_encrypted && !place.is_cluster && place.password.is_none());
        assert_eq!(
            (place.host.as_str(), place.port, place.database),
            ("h", 6379, 0)
        );
        let place = redis("rediss://me:p%40ss%2F@[::1]:7/3?timeout=500ms&retries=0");
        assert_eq!(place.user.as_deref(), Some("me"));
        assert_eq!(place.password.as_deref(), Some("p@ss/"));
        assert_eq!(
            (place.host.as_str(), place.port, place.database),
            ("::1", 7, 3)
        );
        assert!(place.is_encrypted);
        let place = redis("redis://:x@h:1?cluster=1");
        assert_eq!((place.user, place.password.as_deref()), (None, Some("x")));
        assert!(place.is_cluster);
        let location = Location::parse("redis://h?timeout=500ms&retries=0&prefix=a/b").unwrap();
        assert_eq!(location.patience.timeout, Duration::from_millis(500));
        assert_eq!(
            (location.patience.retries, location.prefix.as_str()),
            (0, "a/b")
        );
    }

    #[test]
    fn a_bucket_is_taken_apart() {
        let text = "s3://b.c/pre/fix/?endpoint=http://127.0.0.1:9000&region=eu-west-1";
        let location = Location::parse(text).unwrap();
        assert_eq!(location.prefix, "pre/fix");
        let Place::S3(place) = &location.place else {
            panic!("{location}");
        };
        assert_eq!(
            (place.bucket.as_str(), place.region.as_str()),
            ("b.c", "eu-west-1")
        );
        assert_eq!(place.endpoint.as_deref(), Some("http://127.0.0.1:9000"));
        assert!(location.removal("pre/fix/1").contains("--endpoint-url"));
    }

    #[test]
    fn what_is_wrong_is_said_without_a_secret() {
        for (text, why) in [
            ("ftp://hush@h", "names no store"),
            ("redis://", "host is missing"),
            ("redis://:hush@", "host is missing"),
            ("redis://:hush@h:port", "no port"),
            ("redis://:hu/hush@h", "written %2F"),
            ("redis://h/hush", "number of a database"),
            ("redis://h/1?cluster=1", "no database but 0"),
            ("redis://h?cluster=hush", "cluster=1"),
            ("redis://h?password=hush", "no setting \"password\""),
            ("redis://h?timeout=1h", "10ms to 60s"),
            ("redis://h?timeout=0", "10ms to 60s"),
            ("redis://h?retries=99", "at most 20"),
            ("redis://h?prefix={x}", "the prefix"),
            ("redis://:hush%zz@h", "a % is followed"),
            ("s3://", "name of a bucket"),
            ("s3://key:hush@bucket/", "name of a bucket"),
            ("s3://b?endpoint=hush", "endpoint: write"),
            ("s3://b?endpoint=http://u:hush@h", "endpoint: write"),
        ] {
            let told = Location::parse(text).unwrap_err();
            assert!(told.contains(why), "{text}: {told}");
            assert!(!told.contains("hush"), "{text}: {told}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        for text in [
            "redis://me:hush@h:1/2",
            "redis://:hush@h",
            "redis://:hu/hush@h",
            "rediss://hush@h",
            "redis://:a@hush@h",
            "s3://k:hush@b/p",
            "redis://:hush@h?password=hush&timeout=1s",
        ] {
            assert!(!shown(text).contains("hush"), "{}", shown(text));
            assert!(shown(text).contains("://***@"));
        }
        let location = Location::parse("redis://me:hush@h:1/2").unwrap();
        for shown in [
            location.to_string(),
            format!("{location:?}"),
            location.removal("run"),
        ] {
            assert!(!shown.contains("hush") && !shown.contains("me:"), "{shown}");
        }
        assert_eq!(shown("redis://h:1/2"), "redis://h:1/2");
        let settings = "s3://b/p?endpoint=http://h:1&timeout=1s";
        assert_eq!(shown(settings), settings);
        assert_eq!(shown("s3://b?secret=hush&x"), "s3://b?secret=***&x");
    }

    #[test]
    fn paths_are_no_locations() {
        for text in [
            "/var/tmp/tier",
            "tier",
            "./redis:",
            "a b://c",
            "://x",
            "/a://b",
        ] {
            assert!(!is_location(text), "{text}");
        }
        assert!(is_location("redis://h") && is_location("nosuch://h"));
    }
}
