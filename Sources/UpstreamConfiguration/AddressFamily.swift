import Glibc

enum AddressFamily: Equatable {
    case ipv4
    case ipv6

    init?(of text: String) {
        var storage = in6_addr()
        if inet_pton(AF_INET, text, &storage) == 1 {
            self = .ipv4
        } else if inet_pton(AF_INET6, text, &storage) == 1 {
            self = .ipv6
        } else {
            return nil
        }
    }
}
