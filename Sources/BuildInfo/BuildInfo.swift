import CBuildInfo
import CLibPQ
import CLibXML2
import COpenSSL

/// What this executable was built from, and the C libraries that it runs with.
package enum BuildInfo {
    /// The commit that it was built from, 12 digits, with `-modified` behind them where the tree had other changes; nil
    /// where the build did not say, as only `scripts/build-release` does.
    package static var commit: String? {
        let text = String(cString: upstream_build_commit())
        return text.isEmpty ? nil : text
    }

    /// Whether the compiler optimised it.
    package static var isOptimised: Bool {
        #if DEBUG
        false
        #else
        true
        #endif
    }

    /// The C libraries that are loaded now, one line each: they are the system's, and change when it is updated.
    package static var libraries: [String] {
        [
            String(cString: OpenSSL_version(OPENSSL_VERSION)),
            "libxml2 " + dotted(String(cString: upstream_libxml2_version())),
            "libpq " + dotted(libpq: PQlibVersion()),
        ]
    }

    /// A version as libxml2 writes it, with dots.
    ///
    /// The second and the third number have two digits: `20914` is 2.9.14. What follows the digits (a commit, in builds of
    /// its developers) is left as it is.
    package static func dotted(_ text: String) -> String {
        let digits = text.prefix { $0.isASCII && $0.isNumber }
        guard let number = Int(digits), number >= 1_00_00 else { return text }
        return "\(number / 1_00_00).\(number / 1_00 % 100).\(number % 100)\(text[digits.endIndex...])"
    }

    /// A version as libpq writes it, with a dot.
    ///
    /// The minor version has four digits since 10: `150010` is 15.10 (documentation of PQlibVersion).
    package static func dotted(libpq number: Int32) -> String { "\(number / 1_00_00).\(number % 1_00_00)" }
}
