import NIOCore

/// One sender's messages and the connections they are sharded over.
final class SenderPool {
    /// The sender's id.
    let sender: String
    /// The start tag of its upstream stanzas.
    let address: StanzaAddress
    /// Makes its load.
    let generator: LoadGenerator
    /// What went where.
    var book: MessageBook
    /// Connections bound for it.
    var connections: [ConnectionHandler] = []
    /// By relayed message that waits for its ack: the connection of the client that sent it.
    var sources: [Int: Int] = [:]
    /// How many new messages the rate allows now; infinite where there is no rate.
    var permits = 0.0
    /// Whether enough connections have come for new messages to begin.
    private(set) var isStarted = false
    /// With whom the next round of a rate begins.
    var turn = 0

    init(sender: String, configuration: EmulatorConfiguration) {
        self.sender = sender
        address = StanzaAddress(from: configuration.stanzaFrom, to: "\(sender)@\(configuration.domain)")
        generator = LoadGenerator(profile: configuration.load, address: address)
        book = MessageBook(count: configuration.load.count)
    }

    /// Begins with new messages once there are enough connections.
    func startIfReady() {
        guard !isStarted, connections.count >= generator.profile.connections else { return }
        isStarted = true
        if generator.profile.rate == nil { permits = .infinity }
    }

    /// A message's id, unescaped.
    func id(of sequence: Int) -> [UInt8] {
        sequence >= 0 ? Array(generator.id(sequence).utf8) : book.special(sequence).id
    }

    /// What a message's JSON has as `from`, unescaped.
    func token(of sequence: Int) -> [UInt8] {
        sequence >= 0 ? Array(generator.sender(sequence).utf8) : book.special(sequence).to
    }

    /// Another connection that can take a message.
    func other(than connection: ConnectionHandler) -> ConnectionHandler? {
        connections.first { $0 !== connection && $0.canDeliver }
    }
}
