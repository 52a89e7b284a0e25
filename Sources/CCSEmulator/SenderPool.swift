final class SenderPool {
    let sender: String
    let address: StanzaAddress
    let generator: LoadGenerator
    var book: MessageBook
    var connections: [ConnectionHandler] = []
    /// For each relayed message that waits for its ack, the number of the client's connection.
    var sources: [Int: Int] = [:]
    /// How many new messages the rate allows now; infinite without a rate.
    var permits = 0.0
    /// Whether enough connections are bound for new messages to start.
    private(set) var isStarted = false
    /// The connection that the next round of the rate starts with.
    var turn = 0

    init(sender: String, configuration: EmulatorConfiguration) {
        self.sender = sender
        address = StanzaAddress(from: configuration.stanzaFrom, to: "\(sender)@\(configuration.domain)")
        generator = LoadGenerator(profile: configuration.load, address: address)
        book = MessageBook(count: configuration.load.count)
    }

    func startIfReady() {
        guard !isStarted, connections.count >= generator.profile.connections else { return }
        isStarted = true
        if generator.profile.rate == nil { permits = .infinity }
    }

    /// The message with this id; nil for an id that was never sent.
    func sequence(ofID id: UnsafeBufferPointer<UInt8>) -> Int? {
        generator.sequence(ofID: id).flatMap { book.isKnown($0) ? $0 : nil } ?? book.special(withID: id)
    }

    /// Whether this is the `to` that an ack of the message must give.
    func isSender(_ to: UnsafeBufferPointer<UInt8>, of sequence: Int) -> Bool {
        sequence < 0 ? book.special(sequence).to.elementsEqual(to) : generator.isSender(to, of: sequence)
    }

    func id(of sequence: Int) -> [UInt8] {
        sequence >= 0 ? Array(generator.id(sequence).utf8) : book.special(sequence).id
    }

    /// The `from` of a message's JSON, unescaped.
    func token(of sequence: Int) -> [UInt8] {
        sequence >= 0 ? Array(generator.sender(sequence).utf8) : book.special(sequence).to
    }

    func other(than connection: ConnectionHandler) -> ConnectionHandler? {
        connections.first { $0 !== connection && $0.canDeliver }
    }
}
