import CBuildInfo
import CLibPQ
import CLibXML2
import COpenSSL

/// The commit and the options of this build, and the C libraries in use.
package enum BuildInfo {
    /// The commit built from: 12 digits, then `-modified` if the tree had other changes; nil unless
    /// `scripts/build-release` made the build.
    package static var commit: String? {
        let text = String(cString: upstream_build_commit())
        return text.isEmpty ? nil : text
    }

    package static var isOptimised: Bool {
        #if DEBUG
        false
        #else
        true
        #endif
    }

    /// The C libraries loaded now, one line each; a system update changes them.
    package static var libraries: [String] {
        [
            String(cString: OpenSSL_version(OPENSSL_VERSION)),
            "libxml2 " + dotted(String(cString: upstream_libxml2_version())),
            "libpq " + dotted(libpq: PQlibVersion()),
        ]
    }

    /// A libxml2 version with dots.
    ///
    /// The second and the third number have two digits: `20914` is 2.9.14. A suffix (a commit, in development builds)
    /// is kept.
    package static func dotted(_ text: String) -> String {
        let digits = text.prefix { $0.isASCII && $0.isNumber }
        guard let number = Int(digits), number >= 1_00_00 else { return text }
        return "\(number / 1_00_00).\(number / 1_00 % 100).\(number % 100)\(text[digits.endIndex...])"
    }

    /// A libpq version with a dot.
    ///
    /// Since 10 the minor version has four digits: `150010` is 15.10 (documentation of PQlibVersion).
    package static func dotted(libpq number: Int32) -> String { "\(number / 1_00_00).\(number % 1_00_00)" }
}
