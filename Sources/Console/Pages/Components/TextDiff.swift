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
        let difference = right.difference(from: left)
        var gone = Set<Int>()
        var new = Set<Int>()
        for change in difference {
            switch change {
            case .remove(let offset, _, _): gone.insert(offset)
            case .insert(let offset, _, _): new.insert(offset)
            }
        }
        var rows: [(left: Line, right: Line)] = []
        var (leftIndex, rightIndex) = (0, 0)
        while leftIndex < left.count || rightIndex < right.count {
            let isGone = gone.contains(leftIndex) && leftIndex < left.count
            let isNew = new.contains(rightIndex) && rightIndex < right.count
            if isGone || isNew {
                rows.append(
                    (isGone ? .different(left[leftIndex]) : .absent, isNew ? .different(right[rightIndex]) : .absent)
                )
                leftIndex += isGone ? 1 : 0
                rightIndex += isNew ? 1 : 0
            } else if leftIndex < left.count, rightIndex < right.count {
                rows.append((.same(left[leftIndex]), .same(right[rightIndex])))
                leftIndex += 1
                rightIndex += 1
            } else {
                break
            }
        }
        return rows
    }
}
