package stream

import (
	"io"
	"slices"
	"sync"
)

// rawReply collects a reply as go-redis streams it. Its memory is pooled: the replies of a reader that is behind would
// otherwise be most of what it allocates.
type rawReply struct{ bytes []byte }

var rawReplies = sync.Pool{New: func() any { return new(rawReply) }}

func newRawReply() *rawReply {
	raw, _ := rawReplies.Get().(*rawReply)
	raw.bytes = raw.bytes[:0]
	return raw
}

// maxPooled is the largest buffer to pool: one that is used now and then is never collected.
const maxPooled = 4 * readBytes

// release returns the memory: nothing may refer to it any more.
func (r *rawReply) release() {
	if cap(r.bytes) <= maxPooled {
		rawReplies.Put(r)
	}
}

func (r *rawReply) Write(part []byte) (int, error) {
	r.bytes = append(r.bytes, part...)
	return len(part), nil
}

// ReadFrom saves io.Copy, which go-redis uses for each string, from allocating a buffer.
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
