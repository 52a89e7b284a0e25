import Foundation
import NIOCore
import Testing
import Vocabulary

@testable import TLSWire

/// What both ends of a connection, and nobody else, can name it by.
@Suite(.timeLimit(.minutes(5))) struct ChannelBindingTests {
    private static func bindings(_ channel: any Channel) throws -> [ChannelBinding] {
        try channel.pipeline.syncOperations.handler(type: TLSHandler.self).channelBindings
    }

    private static func value(_ bindings: [ChannelBinding], _ kind: ChannelBinding.Kind) -> [UInt8]? {
        bindings.first { $0.kind == kind }?.data
    }

    @Test("both sides have the same values, and another connection to the same server has others")
    func bothSides() throws {
        for (version, kinds) in [
            (TLSVersion.v1_3, [ChannelBinding.Kind.exporter, .endPoint]), (.v1_2, [.exporter, .unique, .endPoint]),
        ] {
            var seen: [[ChannelBinding]] = []
            for _ in 0..<2 {
                let pair = try Pair(maximumVersion: version)
                #expect(try Self.bindings(pair.client).isEmpty, "before the handshake")
                try pair.connect()
                let client = try Self.bindings(pair.client)
                #expect(client.map(\.kind) == kinds, "\(version)")
                #expect(try Self.bindings(pair.server) == client, "\(version)")
                #expect(Self.value(client, .exporter)?.count == 32)
                #expect(Self.value(client, .unique)?.count == (version == .v1_2 ? 12 : nil))
                #expect(Self.value(client, .endPoint)?.count == 32)
                seen.append(client)
                pair.abandon()
            }
            for kind in kinds where kind != .endPoint {
                #expect(Self.value(seen[0], kind) != Self.value(seen[1], kind), "\(version) \(kind)")
            }
        }
    }

    @Test("the keying material is that of OpenSSL's own server")
    func foreignExporter() async throws {
        let server = try ForeignServer([
            "-tls1_3", "-keymatexport", "EXPORTER-Channel-Binding", "-keymatexportlen", "32",
        ])
        defer { server.stop() }
        let connected = try await Connected.tls(server.port, trusting())
        try await connected.established()
        let exporter = try await connected.channel.eventLoop.submit {
            Self.value(try Self.bindings(connected.channel), .exporter) ?? []
        }.get()
        #expect(exporter.count == 32)
        try await server.wait(for: "Keying material: " + exporter.map { String(format: "%02X", $0) }.joined())
        try await connected.channel.close().get()
    }

    /// OpenSSL's own tool makes each certificate and says what its hash is.
    @Test(
        "the certificate's hash is by the function of its signature, and by SHA-256 where that is too weak",
        arguments: [
            ("rsa:2048", ["-sha1"], "-sha256"), ("rsa:2048", ["-sha256"], "-sha256"),
            ("rsa:2048", ["-sha384", "-sigopt", "rsa_padding_mode:pss"], "-sha384"),
            ("rsa:2048", ["-sha512"], "-sha512"), ("ed25519", [], nil),
        ] as [(String, [String], String?)]
    )
    func certificateHash(_ key: String, _ signature: [String], _ expected: String?) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let (certificate, keyFile) = (folder.appending(path: "c.pem").path, folder.appending(path: "k.pem").path)
        _ = try openssl(
            ["req", "-x509", "-newkey", key, "-nodes", "-subj", "/CN=x", "-addext", "subjectAltName=DNS:localhost"]
                + ["-keyout", keyFile, "-out", certificate] + signature
        )
        let server = try ForeignServer(["-cert", certificate, "-key", keyFile, "-cipher", "ALL@SECLEVEL=0"])
        defer { server.stop() }
        var client = TLSClientConfiguration(serverName: "localhost", caFile: certificate)
        client.closeTimeout = .milliseconds(100)
        let connected = try await Connected.tls(server.port, client)
        try await connected.established()
        let hash = try await connected.channel.eventLoop.submit {
            Self.value(try Self.bindings(connected.channel), .endPoint)
        }.get()
        if let expected {
            let printed = try openssl(["x509", "-in", certificate, "-noout", "-fingerprint", expected])
            let digits = try #require(printed.split(separator: "=").last).filter(\.isHexDigit)
            #expect(hash?.map { String(format: "%02X", $0) }.joined() == String(digits))
        } else {
            #expect(hash == nil)
        }
        try await connected.channel.close().get()
    }
}

/// Runs OpenSSL's own tool and returns what it prints.
func openssl(_ arguments: [String]) throws -> String {
    let process = Process()
    process.executableURL = URL(filePath: "/usr/bin/openssl")
    process.arguments = arguments
    let output = Pipe()
    process.standardOutput = output
    process.standardError = FileHandle.nullDevice
    try process.run()
    let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    process.waitUntilExit()
    try #require(process.terminationStatus == 0, "openssl \(arguments)")
    return text
}
