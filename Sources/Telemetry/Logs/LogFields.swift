/// The typed fields of one log event, in the order in which they are written.
///
/// A list, as there are few: no dictionary is made of them on the way to the line.
package struct LogFields: Sendable, ExpressibleByDictionaryLiteral {
    /// By ``LogField/place``, each field once.
    private(set) var values: [(LogField, LogValue)] = []

    /// These fields; of one that is there twice, the later value counts.
    package init(dictionaryLiteral elements: (LogField, LogValue)...) {
        if Self.areInOrder(elements) {
            values = elements
            return
        }
        values.reserveCapacity(elements.count)
        for (field, value) in elements { self[field] = value }
    }

    /// A field's value; nil where it is not there.
    package subscript(field: LogField) -> LogValue? {
        get { values.first { $0.0 == field }?.1 }
        set {
            // From the end: whoever lists fields does so mostly in their order.
            var place = values.endIndex
            while place > 0, values[place - 1].0.place > field.place { place -= 1 }
            let isThere = place > 0 && values[place - 1].0 == field
            switch (newValue, isThere) {
            case (let value?, true): values[place - 1].1 = value
            case (let value?, false): values.insert((field, value), at: place)
            case (nil, true): values.remove(at: place - 1)
            case (nil, false): break
            }
        }
    }

    /// Whether a list can be taken as it is.
    private static func areInOrder(_ elements: [(LogField, LogValue)]) -> Bool {
        for index in elements.indices.dropFirst() where elements[index - 1].0.place >= elements[index].0.place {
            return false
        }
        return true
    }
}

extension LogField {
    /// The field's place among all, which is what the enumeration holds in memory: nothing is looked up for it.
    var place: UInt8 { withUnsafeBytes(of: self) { $0[0] } }
}
