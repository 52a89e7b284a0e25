import Foundation

/// SASLprep (RFC 4013), the form in which a name or a password is hashed: a profile of stringprep (RFC 3454) on Unicode
/// 3.2, for *stored* strings (RFC 5802 section 2.2), so that newer characters are refused.
enum SASLprep {
    /// Why a text has no prepared form; contains no part of the text.
    enum Failure: Error, Equatable {
        case notUTF8
        case prohibited
        case unassigned
        case mixedDirections
        case empty

        /// The reason for an operator, to follow the name of a setting.
        var reason: String {
            switch self {
            case .notUTF8: "is not UTF-8"
            case .prohibited: "holds a control character or another one that SASLprep (RFC 4013) prohibits"
            case .unassigned: "holds a character that is newer than Unicode 3.2, all that SASLprep (RFC 4013) knows"
            case .mixedDirections:
                "mixes characters that run from right to left with others in a way that SASLprep (RFC 4013) prohibits"
            case .empty: "is empty"
            }
        }
    }

    /// Prepares a text, which must be UTF-8; printable ASCII is unchanged.
    static func prepare(_ bytes: [UInt8]) throws(Failure) -> [UInt8] {
        guard !bytes.isEmpty else { throw .empty }
        if bytes.allSatisfy({ (0x20...0x7e).contains($0) }) { return bytes }
        guard let text = String(validating: bytes, as: UTF8.self) else { throw .notUTF8 }
        // Section 2.1: spaces become ASCII spaces, characters that only affect the display are removed.
        var mapped = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            if isSpace(scalar.value) {
                mapped.append(" ")
            } else if !isMappedToNothing(scalar.value) {
                guard let age = scalar.properties.age, (age.major, age.minor) <= (3, 2) else { throw .unassigned }
                mapped.append(scalar)
            }
        }
        // Section 2.2: form KC. Later versions of Unicode agree on the characters of 3.2.
        let prepared = Array(String(mapped).precomposedStringWithCompatibilityMapping.unicodeScalars)
        guard !prepared.isEmpty else { throw .empty }
        guard !prepared.contains(where: { isProhibited($0.value) }) else { throw .prohibited }
        try checkDirections(prepared)
        return prepared.flatMap { Array(UTF8.encode($0) ?? UTF8.encodedReplacementCharacter) }
    }

    /// RFC 3454 section 6.
    private static func checkDirections(_ text: [Unicode.Scalar]) throws(Failure) {
        guard text.contains(where: { rightToLeft.holds($0.value) }) else { return }
        let ends = [text.first, text.last].compactMap { $0 }
        guard ends.allSatisfy({ rightToLeft.holds($0.value) }), !text.contains(where: { leftToRight.holds($0.value) })
        else { throw .mixedDirections }
    }

    /// RFC 3454 table C.1.2.
    private static func isSpace(_ scalar: UInt32) -> Bool {
        switch scalar {
        case 0xa0, 0x1680, 0x2000...0x200b, 0x202f, 0x205f, 0x3000: true
        default: false
        }
    }

    /// RFC 3454 table B.1, without spaces.
    private static func isMappedToNothing(_ scalar: UInt32) -> Bool {
        switch scalar {
        case 0xad, 0x34f, 0x1806, 0x180b...0x180d, 0x200c, 0x200d, 0x2060, 0xfe00...0xfe0f, 0xfeff: true
        default: false
        }
    }

    /// RFC 3454 tables C.2.1 to C.9, as listed in section 2.3.
    private static func isProhibited(_ scalar: UInt32) -> Bool {
        switch scalar {
        // Controls, of ASCII and beyond.
        case 0...0x1f, 0x7f...0x9f, 0x6dd, 0x70f, 0x180e, 0x200c, 0x200d, 0x2028, 0x2029, 0x2060...0x2063,
            0x206a...0x206f, 0xfeff, 0xfff9...0xfffc, 0x1d173...0x1d17a:
            true
        // Private use.
        case 0xe000...0xf8ff, 0xf0000...0xffffd, 0x100000...0x10fffd: true
        // Noncharacters, and the replacement character.
        case 0xfdd0...0xfdef, 0xfffd: true
        // Descriptions of ideographs.
        case 0x2ff0...0x2ffb: true
        // Characters that change the display, and tags.
        case 0x340, 0x341, 0x200e, 0x200f, 0x202a...0x202e, 0xe0001, 0xe0020...0xe007f: true
        default: scalar & 0xfffe == 0xfffe
        }
    }
}

extension [UInt32] {
    /// Whether one of the ranges, given by pairs of bounds in order, holds a number.
    fileprivate func holds(_ number: UInt32) -> Bool {
        var low = 0
        var high = count / 2
        while low < high {
            let middle = (low + high) / 2
            if number < self[2 * middle] {
                high = middle
            } else if number > self[2 * middle + 1] {
                low = middle + 1
            } else {
                return true
            }
        }
        return false
    }
}
