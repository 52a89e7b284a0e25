// CCSEmulator
