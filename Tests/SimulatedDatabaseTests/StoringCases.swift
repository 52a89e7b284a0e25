import Vocabulary

extension ConformanceTests {
    static let storing = [
        Case("new messages, known ones, and both") { site in
            let writer = site.writer()
            return [
                await site.commit([site.message(1), site.message(2)], by: writer),
                // Copies arrive later.
                await site.commit([site.message(1, at: 100), site.message(2, at: 101)], by: writer),
                await site.commit([site.message(2, at: 200), site.message(3, at: 201)], by: writer),
                await site.commit([site.message(4, at: 300)], by: writer),
                await site.commit([site.message(4, at: 400)], by: writer),
            ] + (try await site.everything())
        },
        Case("copies within a batch") { site in
            [
                await site.commit(
                    [
                        site.message(1), site.message(1, at: 50), site.message(1, at: 51, fingerprint: 2),
                        site.message(2),
                        site.message(1, at: 52, fingerprint: 2),
                    ],
                    by: site.writer()
                )
            ] + (try await site.everything())
        },
        Case("a repeated commit gives the outcomes of the first") { site in
            let writer = site.writer()
            let batch = [
                site.message(1), site.message(2, quarantine: .duplicateKey), site.message(3),
                site.message(1, at: 9, fingerprint: 5), site.message(3, at: 10),
            ]
            let first = await site.commit(batch, by: writer)
            let second = await site.commit(batch, isRetry: true, by: writer)
            let third = await site.commit(batch, by: site.writer())
            return [first, second, third] + (try await site.everything())
        },
        Case("a retry of what has not committed, of a part, and with new copies") { site in
            let writer = site.writer()
            return [
                await site.commit([site.message(1)], isRetry: true, by: writer),
                await site.commit([site.message(1), site.message(2)], isRetry: true, by: writer),
                await site.commit([site.message(1, at: 70), site.message(3)], isRetry: true, by: writer),
            ] + (try await site.everything())
        },
        Case("conflicts are counted once for each copy, by content") { site in
            let writer = site.writer()
            _ = await site.commit([site.message(1)], by: writer)
            func other(_ print: UInt64, _ time: Int64) -> IncomingMessage {
                site.message(1, at: time, fingerprint: print, data: "[\(print)]")
            }
            return [
                await site.commit([other(2, 20)], by: writer),
                await site.commit([other(2, 20)], isRetry: true, by: writer),
                await site.commit([other(2, 40), other(2, 30)], by: writer),
                await site.commit([other(3, 50), other(2, 60), site.message(1, at: 61)], by: writer),
                // Earlier than what has been seen last.
                await site.commit([other(2, 35)], by: writer),
            ] + (try await site.everything())
        },
        Case("quarantine counts what comes again") { site in
            let writer = site.writer()
            func odd(_ number: UInt64, _ time: Int64, _ reason: QuarantineReason) -> IncomingMessage {
                site.message(number, at: time, quarantine: reason)
            }
            return [
                await site.commit([odd(1, 10, .payloadNotJSON)], by: writer),
                await site.commit([odd(1, 10, .payloadNotJSON)], isRetry: true, by: writer),
                await site.commit(
                    [odd(1, 20, .payloadNotJSON), odd(2, 21, .categoryUnusable), odd(1, 22, .payloadNotJSON)],
                    by: writer
                ),
                await site.commit([site.message(3), odd(4, 30, .duplicateKey), site.message(5)], by: writer),
            ] + (try await site.everything())
        },
        Case("an empty batch") { site in ["[\(await site.commit([], by: site.writer()))]"] },
    ]

    static let failing = [
        Case("a row that is refused for its content refuses its batch, and nothing of it is stored") { site in
            let writer = site.writer()
            var text: [String] = []
            try await site.happen(.rowsRefused("23514"))
            text.append(await site.commit([site.message(1), site.message(900), site.message(2)], by: writer))
            text.append(await site.commit([site.message(900)], by: writer))
            text.append(await site.commit([site.message(1), site.message(2)], by: writer))
            text.append(await site.commit([site.message(900, quarantine: .databaseRefused)], by: writer))
            return text + (try await site.everything())
        },
        Case("other classes of content") { site in
            try await site.happen(.rowsRefused("22P05"))
            return [await site.commit([site.message(901), site.message(1)], by: site.writer())]
                + (try await site.everything())
        },
        Case("a limit of the server") { site in
            try await site.happen(.rowsRefused("54001"))
            return [await site.commit([site.message(901), site.message(1)], by: site.writer())]
                + (try await site.everything())
        },
        Case("an error that says nothing about a row") { site in
            try await site.happen(.commitsFail("P0001"))
            let failure = await site.commit([site.message(1)], by: site.writer())
            try await site.happen(.commitsSucceed)
            return [failure] + (try await site.everything())
        },
        Case("commits that fail, of each kind of row") { site in
            let writer = site.writer()
            var text = [await site.commit([site.message(1)], by: writer)]
            for state in ["53100", "40001", "40P01", "22023", "23505", "54000", "58030", "55P03"] {
                try await site.happen(.commitsFail(state))
                text.append(await site.commit([site.message(2)], by: writer))
                text.append(await site.commit([site.message(2), site.message(3)], isRetry: true, by: writer))
                text.append(await site.commit([site.message(1, at: 20, fingerprint: 2)], by: writer))
                text.append(await site.commit([site.message(5, quarantine: .duplicateKey)], by: writer))
                try await site.happen(.commitsSucceed)
                text += try await site.everything()
            }
            text.append(await site.commit([site.message(2), site.message(3)], isRetry: true, by: writer))
            return text + (try await site.everything())
        },
        Case("a server that accepts no writes") { site in
            let writer = site.writer()
            var text = [await site.commit([site.message(1)], by: writer)]
            try await site.happen(.readOnly)
            // The first finds out that its session is gone.
            _ = await site.commit([site.message(2)], by: writer)
            text.append(await site.commit([site.message(2)], by: writer))
            text.append(await site.commit([site.message(1, at: 5)], isRetry: true, by: writer))
            try await site.happen(.writable)
            text.append(await site.commit([site.message(2)], by: writer))
            return text + (try await site.everything())
        },
        Case("a session that has ended") { site in
            let writer = site.writer()
            var text = [await site.commit([site.message(1)], by: writer)]
            try await site.happen(.sessionsEnd)
            text.append(await site.commit([site.message(2)], by: writer))
            text.append(await site.commit([site.message(2)], isRetry: true, by: writer))
            return text + (try await site.everything())
        },
        Case("a lost answer to a commit that went through") { site in
            let writer = site.writer()
            var text = [await site.commit([site.message(1)], by: writer)]
            try await site.happen(.answerLost)
            let batch = [site.message(2), site.message(3), site.message(1, at: 40)]
            text.append(await site.commit(batch, by: writer))
            text += try await site.everything()
            text.append(await site.commit(batch, isRetry: true, by: writer))
            return text + (try await site.everything())
        },
        Case("a statement over our time limit") { site in
            let writer = site.writer()
            var text = [await site.commit([site.message(1)], by: writer)]
            try await site.happen(.tooSlow)
            text.append(await site.commit([site.message(2), site.message(3)], by: writer))
            try await site.happen(.fastAgain)
            text += try await site.everything()
            text.append(await site.commit([site.message(2), site.message(3)], isRetry: true, by: writer))
            return text + (try await site.everything())
        },
        Case("another transaction holds the id and commits: the copy is a duplicate") { site in
            let (writer, message) = (site.writer(), site.message(2, at: 99))
            return try await site.holding(site.message(2), .commit) {
                [await site.commit([message], by: writer)]
            } + (try await site.everything())
        },
        Case("another transaction holds the id and is rolled back: the copy is new") { site in
            let (writer, batch) = (site.writer(), [site.message(1), site.message(2, at: 99)])
            return try await site.holding(site.message(2), .rollback) {
                [await site.commit(batch, by: writer)]
            } + (try await site.everything())
        },
        Case("another transaction holds the id for too long") { site in
            let (writer, batch) = (site.writer(), [site.message(1), site.message(2, at: 99)])
            let text = try await site.holding(site.message(2), .never) {
                [await site.commit(batch, by: writer)]
            }
            return text + [await site.commit(batch, isRetry: true, by: writer)] + (try await site.everything())
        },
        Case("times that are too far from the database's") { site in
            let writer = site.writer(clockAhead: .seconds(5))
            let second: Int64 = 1_000_000
            return [
                await site.commit([site.message(1)], by: writer),
                await site.commit([site.message(2, at: -3_700 * second)], by: writer),
                await site.commit([site.message(2, at: -3_500 * second)], by: writer),
                await site.commit([site.message(3, at: 120 * second), site.message(4)], by: writer),
                await site.commit([site.message(5, at: 40 * second), site.message(4)], by: writer),
                await site.commit([site.message(1, at: -3_700 * second, fingerprint: 3)], by: writer),
                await site.commit([site.message(6, at: 120 * second, quarantine: .duplicateKey)], by: writer),
                // Without a clock of its own a writer stores any.
                await site.commit([site.message(7, at: -3_700 * second)], by: site.writer()),
            ] + (try await site.everything())
        },
    ]
}
