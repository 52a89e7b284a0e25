// TLSWire
