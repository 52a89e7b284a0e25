import NIOCore
import TLSWire

/// The client's end of a ``Link``: a channel of decrypted bytes, as a worker's connections see one behind TLS.
// Sendable: on the simulation's one thread.
final class SimulatedChannel: Channel, ChannelCore, @unchecked Sendable {
    /// The most bytes of one read, as of NIO's largest receive buffer.
    private static let readBytes = 64 << 10
    /// From this many bytes that the kernel does not take on, the channel is not writable.
    private static let highWaterMark = 64 << 10

    let eventLoop: any EventLoop
    let allocator = ByteBufferAllocator()
    let remoteAddress: SocketAddress?
    private let closePromise: EventLoopPromise<Void>
    private(set) lazy var pipeline = ChannelPipeline(channel: self)

    /// Gives bytes to the network.
    var send: (ByteBuffer) -> Void = { _ in }
    /// The bytes that the kernel takes now.
    var room: () -> Int = { 0 }
    /// Spends the time that reading so many bytes takes.
    var work: (Int) -> Void = { _ in }
    /// Tells the network of the end.
    var finish: () -> Void = {}

    private(set) var isActive = false
    private var isOpen = true
    private(set) var isWritable = true
    private var reads = true
    private var isReadDue = false
    private var received: ByteBuffer?
    /// How the peer has ended the connection, after what was received.
    private var peerEnd: (any Error)??
    private var written = MarkedCircularBuffer<(bytes: ByteBuffer, promise: EventLoopPromise<Void>?)>(
        initialCapacity: 4
    )
    private var waiting = 0

    init(on eventLoop: any EventLoop, address: SocketAddress?) {
        self.eventLoop = eventLoop
        remoteAddress = address
        closePromise = eventLoop.makePromise()
    }

    var closeFuture: EventLoopFuture<Void> { closePromise.futureResult }
    var localAddress: SocketAddress? { nil }
    var parent: (any Channel)? { nil }
    var _channelCore: any ChannelCore { self }
    var syncOptions: (any NIOSynchronousChannelOptions)? { Options(channel: self) }

    /// Begins, connected; TLS is established a little later, when the handlers are there.
    func start() {
        isActive = true
        pipeline.syncOperations.fireChannelRegistered()
        pipeline.syncOperations.fireChannelActive()
        eventLoop.execute { [self] in
            guard isOpen else { return }
            let event = TLSEvent.established(version: "TLSv1.3", cipher: "TLS_AES_128_GCM_SHA256")
            pipeline.fireUserInboundEventTriggered(event)
        }
    }

    // MARK: From the network, at any moment

    func arrived(_ bytes: ByteBuffer) {
        guard isOpen, peerEnd == nil else { return }
        if received == nil { received = bytes } else { received?.writeImmutableBuffer(bytes) }
        wantRead()
    }

    func peerEnded(_ error: (any Error)?) {
        guard isOpen, peerEnd == nil else { return }
        peerEnd = .some(error)
        // A reset drops what was not read yet.
        if error != nil { received = nil }
        wantRead()
    }

    func roomGrew() {
        guard isOpen, waiting > 0 else { return }
        eventLoop.execute { [self] in if isOpen { writeOut() } }
    }

    private func wantRead() {
        // Like epoll: a reset is noticed although nothing is read.
        let isReset = peerEnd.map { $0 != nil } ?? false
        guard !isReadDue, isOpen, reads && (received != nil || peerEnd != nil) || isReset else { return }
        isReadDue = true
        eventLoop.execute { [self] in
            isReadDue = false
            readNow()
        }
    }

    private func readNow() {
        guard isOpen else { return }
        if reads, var waiting = received.take(),
            let bytes = waiting.readSlice(length: min(waiting.readableBytes, Self.readBytes))
        {
            if waiting.readableBytes > 0 { received = waiting }
            work(bytes.readableBytes)
            pipeline.syncOperations.fireChannelRead(NIOAny(bytes))
            pipeline.syncOperations.fireChannelReadComplete()
            return wantRead()
        }
        guard received == nil, let end = peerEnd else { return }
        if let error = end { pipeline.syncOperations.fireErrorCaught(error) }
        if isOpen { close0(error: ChannelError.eof, mode: .all, promise: nil) }
    }

    // MARK: ChannelCore

    func write0(_ data: NIOAny, promise: EventLoopPromise<Void>?) {
        guard isOpen else {
            promise?.fail(ChannelError.ioOnClosedChannel)
            return
        }
        let bytes = unwrapData(data, as: ByteBuffer.self)
        waiting += bytes.readableBytes
        written.append((bytes, promise))
        tellWritability()
    }

    func flush0() {
        written.mark()
        writeOut()
    }

    private func writeOut() {
        while written.hasMark, room() > 0, let (bytes, promise) = written.popFirst() {
            waiting -= bytes.readableBytes
            if isActive { send(bytes) }
            promise?.succeed(())
        }
        tellWritability()
    }

    private func tellWritability() {
        let now = waiting < (isWritable ? Self.highWaterMark : Self.highWaterMark / 2)
        guard now != isWritable else { return }
        isWritable = now
        pipeline.syncOperations.fireChannelWritabilityChanged()
    }

    func close0(error: any Error, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        guard isOpen else {
            promise?.fail(ChannelError.alreadyClosed)
            return
        }
        isOpen = false
        isActive = false
        (received, waiting) = (nil, 0)
        if peerEnd == nil { finish() }
        promise?.succeed(())
        while let (_, promise) = written.popFirst() { promise?.fail(ChannelError.ioOnClosedChannel) }
        pipeline.syncOperations.fireChannelInactive()
        pipeline.syncOperations.fireChannelUnregistered()
        eventLoop.execute { [self] in
            removeHandlers(pipeline: pipeline)
            closePromise.succeed(())
        }
    }

    func read0() {}
    func channelRead0(_ data: NIOAny) {}
    func errorCaught0(error: any Error) {}
    func localAddress0() throws -> SocketAddress { throw ChannelError.operationUnsupported }
    func remoteAddress0() throws -> SocketAddress { throw ChannelError.operationUnsupported }
    func register0(promise: EventLoopPromise<Void>?) { promise?.succeed(()) }
    func registerAlreadyConfigured0(promise: EventLoopPromise<Void>?) { promise?.succeed(()) }
    func bind0(to: SocketAddress, promise: EventLoopPromise<Void>?) { refuse(promise) }
    func connect0(to: SocketAddress, promise: EventLoopPromise<Void>?) { refuse(promise) }
    func triggerUserOutboundEvent0(_ event: Any, promise: EventLoopPromise<Void>?) { refuse(promise) }
    private func refuse(_ promise: EventLoopPromise<Void>?) { promise?.fail(ChannelError.operationUnsupported) }

    func setOption<Option: ChannelOption>(_ option: Option, value: Option.Value) -> EventLoopFuture<Void> {
        eventLoop.makeFailedFuture(ChannelError.operationUnsupported)
    }

    func getOption<Option: ChannelOption>(_ option: Option) -> EventLoopFuture<Option.Value> {
        eventLoop.makeFailedFuture(ChannelError.operationUnsupported)
    }

    private struct Options: NIOSynchronousChannelOptions {
        let channel: SimulatedChannel

        func setOption<Option: ChannelOption>(_ option: Option, value: Option.Value) throws {
            guard option is ChannelOptions.Types.AutoReadOption, let value = value as? Bool else { return }
            channel.reads = value
            channel.wantRead()
        }

        func getOption<Option: ChannelOption>(_ option: Option) throws -> Option.Value {
            throw ChannelError.operationUnsupported
        }
    }
}
