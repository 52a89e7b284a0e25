import Postgres
import Telemetry
import Testing

/// The label set of `upstream_database_errors_total` stands in two modules that don't know each other.
struct ErrorClassTests {
    @Test("the metric's classes are the Postgres module's")
    func names() {
        #expect(DatabaseErrorClass.allCases.map(\.text) == PostgresError.Class.allCases.map(\.rawValue))
    }

    @Test(
        "both put a SQLSTATE into the same class",
        arguments: [
            "08006", "28P01", "3D000", "53100", "57P01", "57014", "25P03", "58030", "XX001", "25006", "40001", "40P01",
            "55P03",
            "22P02", "23505", "54000", "42501", "42P01", "3F000", "26000", "0A000", "99999", "25001",
        ]
    )
    func states(state: String) {
        let own = PostgresError.classify(state, hasConstraint: true).rawValue
        #expect(DatabaseErrorClass(sqlState: state).text == own)
    }
}
