/// XML inside a stream that a receiver must answer with a stream error and a close.
///
/// Well-formed stanzas that are merely too deep, too wide or of an unknown prefix must not be: see ``OddMessage``.
package enum HostileXML {
    package static let names = makers.map(\.name)

    package static func named(_ name: String) -> [UInt8]? { makers.first { $0.name == name }?.bytes() }

    /// Made on demand: some are large, and the help shows only the names.
    private static let makers: [(name: String, bytes: @Sendable () -> [UInt8])] = [
        ("comment", { Array("<!-- hello -->".utf8) }),
        ("instruction", { Array("<?php echo 1 ?>".utf8) }),
        ("declaration", { Array("<?xml version='1.0'?>".utf8) }),
        ("doctype", { Array("<!DOCTYPE x [<!ENTITY a 'b'>]>".utf8) }),
        ("entity", { Array("<message><gcm xmlns='google:mobile:data'>&nbsp;</gcm></message>".utf8) }),
        ("stray-markup", { Array("<message><gcm xmlns='google:mobile:data'>{\"a\":<}</gcm></message>".utf8) }),
        ("mismatched", { Array("<message><gcm xmlns='google:mobile:data'></message></gcm>".utf8) }),
        ("double-attribute", { Array("<message id='1' id='2'/>".utf8) }),
        ("control-character", { Array("<message><body>".utf8) + [0x01] + Array("</body></message>".utf8) }),
        ("character-reference", { Array("<message><body>&#1;</body></message>".utf8) }),
        ("bad-utf8", { Array("<message><body>".utf8) + [0xC0, 0xBC] + Array("</body></message>".utf8) }),
        ("surrogate-utf8", { Array("<message><body>".utf8) + [0xED, 0xA0, 0x80] + Array("</body></message>".utf8) }),
        ("huge", { Array("<message><body>".utf8) + [UInt8](repeating: 0x78, count: 400_000) }),
        ("endless-tag", { Array("<message id='".utf8) + [UInt8](repeating: 0x78, count: 400_000) }),
    ]
}
