import Foundation
import SimulatedDatabase
import UpstreamKit

/// `upstream.wants` for what these tests ask: clauses about a member of `data` that exists, or equals a number or text.
enum ModelFilter {
    private struct Clause: Decodable {
        var path: String
        var test: String
        var number: Double?
        var text: String?

        enum CodingKeys: CodingKey {
            case path, test, `is`
        }

        init(from decoder: any Decoder) throws {
            let form = try decoder.container(keyedBy: CodingKeys.self)
            path = try form.decode(String.self, forKey: .path)
            test = try form.decode(String.self, forKey: .test)
            (number, text) = (try? form.decode(Double.self, forKey: .is), try? form.decode(String.self, forKey: .is))
        }
    }

    static func passes(_ filter: String, _ body: StoredBody) -> Bool {
        let data = body.upstream?.data.flatMap { try? JSONSerialization.jsonObject(with: Data($0)) }
        let clauses = try? JSONDecoder().decode([Clause].self, from: Data(filter.utf8))
        return clauses?.allSatisfy { clause in
            let value = (data as? [String: Any])?[clause.path.trimmingCharacters(in: ["{", "}", "\""])]
            switch clause.test {
            case "exists": return value != nil
            case "=": return (value as? Double).map { $0 == clause.number } ?? ((value as? String) == clause.text)
            default: preconditionFailure("the model knows no such test")
            }
        } ?? false
    }
}
