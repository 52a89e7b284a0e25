enum TextDiff {
    /// The number of lines compared; the rest is ignored.
    static let limit = 1_200

    enum Line: Equatable {
        /// On both sides.
        case same(String)
        /// Only on this side.
        case different(String)
        /// Only on the other side.
        case absent
    }

    /// Aligns the lines of two texts.
    static func rows(_ left: [String], _ right: [String]) -> [(left: Line, right: Line)] {
        let (left, right) = (Array(left.prefix(limit)), Array(right.prefix(limit)))
        var (gone, new) = (Set<Int>(), Set<Int>())
        for change in right.difference(from: left) {
            switch change {
            case .remove(let offset, _, _): gone.insert(offset)
            case .insert(let offset, _, _): new.insert(offset)
            }
        }
        var rows: [(left: Line, right: Line)] = []
        var (leftIndex, rightIndex) = (0, 0)
        while leftIndex < left.count || rightIndex < right.count {
            let (isGone, isNew) = (gone.contains(leftIndex), new.contains(rightIndex))
            // What neither side has alone, both have.
            let isSame = !isGone && !isNew
            rows.append(
                (
                    isSame ? .same(left[leftIndex]) : isGone ? .different(left[leftIndex]) : .absent,
                    isSame ? .same(right[rightIndex]) : isNew ? .different(right[rightIndex]) : .absent
                )
            )
            leftIndex += isSame || isGone ? 1 : 0
            rightIndex += isSame || isNew ? 1 : 0
        }
        return rows
    }
}
