use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Who connects, as far as addresses tell. Kept among the extensions of each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Peer {
    /// An IPv4 address, also one that is mapped into IPv6.
    V4(Ipv4Addr),
    /// The first 64 bits of an IPv6 address: a host chooses the rest as it likes.
    V6(u64),
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        match address.ip().to_canonical() {
            IpAddr::V4(address) => Self::V4(address),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments().map(u64::from);
                Self::V6(a << 48 | b << 32 | c << 16 | d)
            }
        }
    }
}
