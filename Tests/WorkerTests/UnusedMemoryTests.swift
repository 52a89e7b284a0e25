import Testing

@testable import Worker

@Suite("memory that glibc keeps")
struct UnusedMemoryTests {
    @Test("it is returned once much of it has become unused, and again after it was used in between")
    func returned() {
        var memory = UnusedMemory()
        let much = UnusedMemory.threshold
        func steps(_ megabytes: Int...) -> [Bool] {
            megabytes.map { megabyte in
                let isWorth = memory.isWorthReturning(megabyte << 20)
                if isWorth { memory.returned(megabyte << 20) }
                return isWorth
            }
        }
        #expect(much == 16 << 20)
        #expect(steps(3, 10, 18, 19, 19, 34) == [false, false, false, true, false, false])
        // Used, and free again.
        #expect(steps(35, 5, 20, 21, 21) == [true, false, false, true, false])
    }
}
