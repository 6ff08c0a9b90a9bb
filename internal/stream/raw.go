package stream

import (
	"io"
	"slices"
	"sync"
)

// rawReply takes up a reply as go-redis streams it. Its memory serves one reply after the other: the replies of a reader
// that is behind would otherwise be most of what it allocates.
type rawReply struct{ bytes []byte }

var rawReplies = sync.Pool{New: func() any { return new(rawReply) }} //nolint:gochecknoglobals // a pool is

func newRawReply() *rawReply {
	raw, _ := rawReplies.Get().(*rawReply)
	raw.bytes = raw.bytes[:0]
	return raw
}

// maxKept is the size up to which memory serves again. What is used now and then is never collected.
const maxKept = 4 * readBytes

// release gives the memory back: nothing may refer to it any more.
func (r *rawReply) release() {
	if cap(r.bytes) <= maxKept {
		rawReplies.Put(r)
	}
}

func (r *rawReply) Write(part []byte) (int, error) {
	r.bytes = append(r.bytes, part...)
	return len(part), nil
}

// ReadFrom spares io.Copy, by which go-redis hands over each string, a buffer of its own.
func (r *rawReply) ReadFrom(from io.Reader) (read int64, err error) {
	for {
		if len(r.bytes) == cap(r.bytes) {
			r.bytes = slices.Grow(r.bytes, 1)
		}
		n, err := from.Read(r.bytes[len(r.bytes):cap(r.bytes)])
		r.bytes = r.bytes[:len(r.bytes)+n]
		read += int64(n)
		switch {
		case err == io.EOF:
			return read, nil
		case err != nil:
			return read, err
		}
	}
}
