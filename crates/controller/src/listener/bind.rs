use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

/// Listens at an address; the listener does not block. Where the address is `[::]`, which takes IPv4 as well, and cannot
/// be listened on, such as on a machine without IPv6, it is 0.0.0.0: after any error but that the address is taken.
///
/// # Errors
/// Why the address, or 0.0.0.0, cannot be listened on.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = or_ipv4(address, TcpListener::bind)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// An address that is taken stays an error: another program has the port.
fn or_ipv4<T>(address: SocketAddr, bind: impl Fn(SocketAddr) -> io::Result<T>) -> io::Result<T> {
    match bind(address) {
        Err(error)
            if address.is_ipv6()
                && address.ip().is_unspecified()
                && error.kind() != io::ErrorKind::AddrInUse =>
        {
            bind((Ipv4Addr::UNSPECIFIED, address.port()).into())
        }
        bound => bound,
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn without_ipv6_every_ipv4_address_is_listened_on() {
        let has_no_ipv6 = |address: SocketAddr| match address {
            SocketAddr::V4(_) => Ok(address),
            // Address family not supported by protocol
            SocketAddr::V6(_) => Err(io::Error::from_raw_os_error(97)),
        };
        let is_taken = |address: SocketAddr| match address {
            SocketAddr::V4(_) => Ok(address),
            SocketAddr::V6(_) => Err(io::Error::from(io::ErrorKind::AddrInUse)),
        };
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        assert_eq!(or_ipv4(at("[::]:8443"), has_no_ipv6).unwrap(), at("0.0.0.0:8443"));
        assert_eq!(or_ipv4(at("127.0.0.1:1"), has_no_ipv6).unwrap(), at("127.0.0.1:1"));
        assert!(or_ipv4(at("[::1]:8443"), has_no_ipv6).is_err());
        assert!(or_ipv4(at("[::]:8443"), is_taken).is_err());
    }

    #[test]
    fn every_address_takes_ipv4_as_well() {
        let listener = bind("[::]:0".parse().unwrap()).unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok());
    }
}
