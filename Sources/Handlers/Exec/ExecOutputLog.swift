import Glibc
import Logging
import NIOCore
import NIOPosix
import Processes
import Telemetry

/// Logs the standard error of a handler's subprocesses line by line, bounded in length and rate.
struct ExecOutputLog: Sendable {
    var handler: String

    var logger: Logger

    /// Longer lines are cut to this many bytes.
    static let lineLimit = 1024

    /// The most lines logged of one process in a second; the others are counted.
    static let linesPerSecond = 50

    /// The most bytes read from one process in a second: a faster writer waits.
    static let bytesPerSecond = 1 << 20

    func write(_ line: [UInt8]) {
        logger.event(
            .info,
            .handlerOutput,
            "a handler's program wrote to its standard error",
            [.handler: .string(handler), .line: .string(Self.printable(line))]
        )
    }

    func skipped(_ count: Int) {
        logger.event(
            .warning,
            .handlerOutput,
            "a handler's program wrote more lines to its standard error than are logged",
            [.handler: .string(handler), .count: .int(count)]
        )
    }

    func ended(_ reason: String) {
        logger.event(
            .warning,
            .handlerProcessEnded,
            "a handler's subprocess ended; the next message starts another",
            [.handler: .string(handler), .reason: .string(reason)]
        )
    }

    private static func printable(_ line: [UInt8]) -> String {
        String(decoding: line.filter { $0 >= 0x20 || $0 == 0x09 }, as: UTF8.self)
    }
}

/// Splits bytes into lines, limited in length and rate.
struct LineSampler {
    struct Sample: Hashable {
        var lines: [[UInt8]] = []
        /// The number of lines left out in the previous second, once it is over.
        var skipped = 0
    }

    private var line: [UInt8] = []
    private var second: Int64 = 0
    private var linesThisSecond = 0
    private var skipped = 0

    /// Takes bytes that came in this second of the monotonic clock.
    mutating func take(_ bytes: [UInt8], second now: Int64) -> Sample {
        var sample = Sample()
        if now != second {
            (sample.skipped, skipped) = (skipped, 0)
            (second, linesThisSecond) = (now, 0)
        }
        bytes.withUnsafeBytes { bytes in
            var rest = bytes[...]
            // One memchr per line, not a step per byte: a program may write as fast as we read.
            while !rest.isEmpty, let start = UnsafeRawBufferPointer(rebasing: rest).baseAddress {
                let count = memchr(start, 0x0A, rest.count).map { UnsafeRawPointer($0) - start }
                line.append(contentsOf: rest.prefix(min(count ?? rest.count, ExecOutputLog.lineLimit - line.count)))
                guard let count else { break }
                close(into: &sample)
                rest = rest.dropFirst(count + 1)
            }
        }
        return sample
    }

    mutating func finish() -> Sample {
        var sample = Sample()
        close(into: &sample)
        (sample.skipped, skipped) = (skipped, 0)
        return sample
    }

    private mutating func close(into sample: inout Sample) {
        defer { line.removeAll(keepingCapacity: true) }
        guard !line.isEmpty else { return }
        if linesThisSecond < ExecOutputLog.linesPerSecond {
            linesThisSecond += 1
            sample.lines.append(line)
        } else {
            skipped += 1
        }
    }
}

/// A started process whose standard error is logged.
struct ExecChild {
    let process: ChildProcess
    /// The write end of its standard input.
    let input: CInt
    /// The read end of its standard output, if that is read.
    let output: CInt?
    let exit: EventLoopFuture<ChildProcess.Exit>

    /// Starts a program and logs its standard error until the end or, if other processes hold that open, until shortly
    /// after the process's end.
    static func start(
        _ program: ChildProgram,
        readsOutput: Bool,
        _ log: ExecOutputLog
    ) async throws -> ExecChild {
        let eventLoop = MultiThreadedEventLoopGroup.singleton.next()
        let exit = eventLoop.makePromise(of: ChildProcess.Exit.self)
        let process: ChildProcess
        let pipes: ChildProcess.Pipes
        do throws(SpawnError) {
            (process, pipes) = try await ChildProcess.start(program, readsOutput: readsOutput) { exit.succeed($0) }
        } catch {
            exit.fail(error)
            throw error
        }
        do {
            let channel = try await NIOPipeBootstrap(group: eventLoop)
                .takingOwnershipOfDescriptor(input: pipes.error) { channel in
                    channel.eventLoop.makeCompletedFuture {
                        try channel.pipeline.syncOperations.addHandler(ErrorOutputHandler(log))
                        return channel
                    }
                }
            exit.futureResult.whenComplete { _ in
                guard channel.isActive else { return }
                // Time to read the pipe's content.
                eventLoop.scheduleTask(in: .seconds(1)) { channel.close(promise: nil) }
            }
        } catch {
            process.kill()
            throw error
        }
        return ExecChild(process: process, input: pipes.input, output: pipes.output, exit: exit.futureResult)
    }

    private final class ErrorOutputHandler: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer

        private var sampler = LineSampler()
        private var bytesThisSecond = 0
        private let log: ExecOutputLog

        init(_ log: ExecOutputLog) {
            self.log = log
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            let second = Int64(NIODeadline.now().uptimeNanoseconds / 1_000_000_000)
            let bytes = unwrapInboundIn(data)
            write(sampler.take(Array(bytes.readableBytesView), second: second))
            let before = bytesThisSecond
            bytesThisSecond += bytes.readableBytes
            if before == 0 {
                context.eventLoop.assumeIsolated().scheduleTask(in: .seconds(1)) {
                    self.bytesThisSecond = 0
                    try? context.channel.syncOptions?.setOption(.autoRead, value: true)
                }
            }
            // Reading as fast as a program can write would take a core from the ack path.
            if before <= ExecOutputLog.bytesPerSecond, bytesThisSecond > ExecOutputLog.bytesPerSecond {
                try? context.channel.syncOptions?.setOption(.autoRead, value: false)
            }
        }

        func channelInactive(context: ChannelHandlerContext) {
            write(sampler.finish())
            context.fireChannelInactive()
        }

        private func write(_ sample: LineSampler.Sample) {
            if sample.skipped > 0 { log.skipped(sample.skipped) }
            for line in sample.lines { log.write(line) }
        }
    }
}
