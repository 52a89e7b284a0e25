import Testing
import Vocabulary

@testable import Postgres

/// The texts are what the products answer.
@Suite("which engine a server is, by its version()")
struct DatabaseEngineTests {
    @Test(
        "PostgreSQL and what is built from the whole of it pass",
        arguments: [
            "PostgreSQL 15.18 (Debian 15.18-0+deb12u1) on x86_64-pc-linux-gnu, compiled by gcc (Debian 12.2.0-14+deb12u1) 12.2.0, 64-bit",
            "PostgreSQL 17.2 on aarch64-unknown-linux-gnu, compiled by aarch64-unknown-linux-gnu-gcc (GCC) 9.5.0, 64-bit",
            "PostgreSQL 14.17 on x86_64-pc-linux-gnu, compiled by Debian clang version 12.0.1, 64-bit",
            "PostgreSQL 16.4, compiled by Visual C++ build 1940, 64-bit",
            "PostgreSQL 15.2 (EnterpriseDB Advanced Server 15.2.0) on x86_64-pc-linux-gnu, compiled by gcc, 64-bit",
            "PostgreSQL 18beta1 on x86_64-pc-linux-gnu, compiled by gcc (GCC) 14.2.1, 64-bit",
        ]
    )
    func postgreSQL(_ version: String) {
        let engine = DatabaseEngine(version: version)
        #expect(engine.name == "PostgreSQL" && engine.lacks == nil && engine.refusal == nil)
    }

    @Test(
        "other engines are named and refused",
        arguments: [
            (
                "CockroachDB",
                "CockroachDB CCL v23.2.4 (x86_64-pc-linux-gnu, built 2024/04/08 21:51:36, go1.21.8 X:nocoverageredesign)"
            ),
            (
                "YugabyteDB",
                "PostgreSQL 11.2-YB-2.20.1.3-b0 on x86_64-pc-linux-gnu, compiled by clang version 16.0.6, 64-bit"
            ),
            (
                "YugabyteDB",
                "PostgreSQL 15.12-YB-2025.2.3.0-b1 on x86_64-pc-linux-gnu, compiled by clang version 19.1.0, 64-bit"
            ),
            (
                "Amazon Redshift",
                "PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC gcc (GCC) 3.4.2 20041017 (Red Hat 3.4.2-6.fc3), Redshift 1.0.63269"
            ),
            (
                "Greenplum",
                "PostgreSQL 12.12 (Greenplum Database 7.1.0 build commit:e7c2b1f) on x86_64-pc-linux-gnu, 64-bit"
            ),
            ("Cloudberry", "PostgreSQL 14.4 (Cloudberry Database 1.5.4+dev build dev) on x86_64-pc-linux-gnu, 64-bit"),
            ("Materialize", "PostgreSQL 9.5.0 on x86_64-unknown-linux-gnu (Materialize v0.93.0)"),
            ("RisingWave", "PostgreSQL 13.14.0-RisingWave-2.1.0 (9f0b5ce)"),
            (
                "CrateDB",
                "CrateDB 5.6.3 (built 8d9b4bf/NA, Linux 5.15.0-1057-aws amd64, OpenJDK 64-Bit Server VM 21.0.2+13-LTS)"
            ),
            ("QuestDB", "PostgreSQL 12.3, compiled by Visual C++ build 1914, 64-bit, QuestDB"),
            (
                "openGauss",
                "(openGauss 5.0.1 build 33b035fd) compiled at 2023-12-15 20:28:19 commit 0 last mr on x86_64-unknown-linux-gnu"
            ),
            ("another engine", "8.0.36"),
        ]
    )
    func others(_ name: String, _ version: String) {
        let engine = DatabaseEngine(version: version)
        #expect(engine.name == name)
        let refusal = engine.refusal
        #expect(refusal?.failureClass == .schema)
        #expect(refusal?.message.hasPrefix("the server is \(name) and not PostgreSQL: ") == true)
    }

    @Test(
        "a lag as it is told",
        arguments: [
            (ReadLag(isStandby: true, seconds: 1.23), "read from a standby, 1.2 s behind", "1.2"),
            (ReadLag(isStandby: true, seconds: 0), "read from a standby, 0 s behind", "0"),
            (ReadLag(isStandby: true, seconds: 7_200), "read from a standby, 2 h behind", "7200"),
            (ReadLag(isStandby: true, seconds: nil), "read from a standby, which does not tell its lag", "unknown"),
            (ReadLag(isStandby: false, seconds: 0), nil, "0"),
        ]
    )
    func lag(_ lag: ReadLag, _ note: String?, _ field: String) {
        #expect(lag.note == note && lag.field == field)
    }

    @Test("of two answers the older one counts, and one that does not tell is the oldest")
    func older() {
        let (late, early) = (ReadLag(isStandby: true, seconds: 9), ReadLag(isStandby: true, seconds: 1))
        let (unknown, primary) = (ReadLag(isStandby: true, seconds: nil), ReadLag(isStandby: false, seconds: 0))
        #expect(late.older(early) == late && early.older(late) == late)
        #expect(unknown.older(late) == unknown && late.older(unknown) == unknown)
        #expect(primary.older(early) == early && early.older(primary) == early)
        #expect(primary.older(ReadLag(isStandby: true, seconds: 0)).isStandby)
        #expect(ReadLag(isStandby: true, seconds: 0).older(primary).isStandby)
    }
}
