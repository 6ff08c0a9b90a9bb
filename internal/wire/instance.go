package wire

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
)

// InstanceID identifies a writer of positions. Processes that derive it from the same name are the same writer, in .NET
// and Go alike.
type InstanceID [16]byte

// DeriveInstanceID returns the id of a name, as the .NET package makes it: 16 bytes of its SHA-256 with the version and
// variant bits of a UUID set.
func DeriveInstanceID(name string) InstanceID {
	sum := sha256.Sum256([]byte(name))
	return stamp(InstanceID(sum[:16]))
}

// RandomInstanceID returns an id for a process without a stable name.
func RandomInstanceID() InstanceID {
	var id InstanceID
	// Since Go 1.24 crypto/rand.Read never returns an error.
	_, _ = rand.Read(id[:])
	return stamp(id)
}

func stamp(id InstanceID) InstanceID {
	id[6] = id[6]&0x0F | 0x80
	id[8] = id[8]&0x3F | 0x80
	return id
}

// String renders the id as .NET does: the first three groups are little-endian.
func (id InstanceID) String() string {
	order := [16]byte{id[3], id[2], id[1], id[0], id[5], id[4], id[7], id[6]}
	copy(order[8:], id[8:])
	var text [36]byte
	hex.Encode(text[0:8], order[0:4])
	hex.Encode(text[9:13], order[4:6])
	hex.Encode(text[14:18], order[6:8])
	hex.Encode(text[19:23], order[8:10])
	hex.Encode(text[24:36], order[10:16])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return string(text[:])
}
