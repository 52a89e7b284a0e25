/// The typed fields of a log event, in the order in which they are written: a list, since there are few.
package struct LogFields: Sendable, ExpressibleByDictionaryLiteral {
    /// Sorted by ``LogField/place``, each field once.
    private(set) var values: [(LogField, LogValue)] = []

    /// Of a repeated field, the later value counts.
    package init(dictionaryLiteral elements: (LogField, LogValue)...) {
        if Self.areInOrder(elements) {
            values = elements
            return
        }
        values.reserveCapacity(elements.count)
        for (field, value) in elements { self[field] = value }
    }

    package subscript(field: LogField) -> LogValue? {
        get { values.first { $0.0 == field }?.1 }
        set {
            // From the end, since fields are mostly listed in order.
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

    /// Whether the fields are sorted and unique.
    private static func areInOrder(_ elements: [(LogField, LogValue)]) -> Bool {
        for index in elements.indices.dropFirst() where elements[index - 1].0.place >= elements[index].0.place {
            return false
        }
        return true
    }
}

extension LogField {
    /// The field's place in the order, read from the enumeration's memory to avoid a look-up.
    var place: UInt8 { withUnsafeBytes(of: self) { $0[0] } }
}
