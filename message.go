package restatestart

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/redisevents/restatestart/internal/wire"
)

// Message is one entry of a partition stream, with its body decoded. It is handed out by pointer to save
// copying; a handler reads it and keeps no pointer to it after it returned.
type Message[T any] struct {
	// Value is the decoded body.
	Value T
	// ID is the entry's id in its stream, `<ms>-<seq>`: the milliseconds since 1970 at which it was added, and a
	// sequence number within that millisecond.
	ID string
	// Stream is the Redis key of the stream the entry stands in.
	Stream string
	// Partition is the number of that stream within its topic, from 0.
	Partition int
	// Type is the producer's name for the kind of message, field `t`. It may be empty.
	Type string
	// Key is the producer's partition key, field `k`: messages of one key stand in one partition, in order. It may
	// be empty. It is not the workflow key; Map chooses that one.
	Key string
	// CorrelationID is what the producer correlates by, field `c`. It may be empty.
	CorrelationID string
	// TraceParent is the W3C trace context of whoever published the message, field `p`, as written there. It may be
	// empty or malformed.
	TraceParent string
	// Headers are the producer's headers, field `h`.
	Headers Headers
	// Body is the entry's body as the producer wrote it, field `b`.
	Body []byte
}

// Headers are the headers of a message, in the producer's order. A name may occur more than once. They are
// unpacked on access: a malformed block is an error to those who look into it and harms nobody else.
type Headers struct{ packed wire.Headers }

// Header is one of a message's Headers.
type Header struct {
	Name  string
	Value string
}

// NewHeaders packs headers as a producer does, for tests of a Keep or Map that reads them. It returns an error
// for more than 64 headers or more than 8192 bytes, which is what RedisEvents publishes at most.
func NewHeaders(headers ...Header) (Headers, error) {
	list := make([]wire.Header, len(headers))
	for i, header := range headers {
		list[i] = wire.Header(header)
	}
	packed, err := wire.PackHeaders(list...)
	return Headers{packed}, err
}

// Lookup finds the first header of a name, to the letter. It returns an error when the block is malformed before
// such a header was found.
func (h Headers) Lookup(name string) (value string, found bool, err error) {
	return h.packed.Lookup(name)
}

// All yields the headers in order. A malformed block ends with an error, after the headers before the fault.
func (h Headers) All() iter.Seq2[Header, error] {
	return func(yield func(Header, error) bool) {
		for header, err := range h.packed.All() {
			if !yield(Header(header), err) {
				return
			}
		}
	}
}

// ErrMalformed is what an entry that cannot be read comes back as: its body is missing, or the decoder refused
// it.
var ErrMalformed = errors.New("malformed entry")

// NewMessage turns an entry that a service's own go-redis loop has read into a Message, for use with
// Starter.Handle. The stream is the key the entry was read from, and the partition its number within the topic
// (0 where there are no partitions). It returns an error wrapping ErrMalformed when the entry has no field `b`,
// or when decode refuses or panics over the body. Where a field occurs twice, go-redis keeps the last one.
func NewMessage[T any](stream string, partition int, entry redis.XMessage, decode func([]byte) (T, error)) (Message[T], error) {
	id, err := wire.ParseID(entry.ID)
	if err != nil {
		return Message[T]{}, fmt.Errorf("%w in %s: %w", ErrMalformed, stream, err)
	}
	decoded := wire.Decode(id, entry.Values)
	var message Message[T]
	if err := message.read(stream, partition, &decoded, []byte(decoded.Body), decode); err != nil {
		return Message[T]{}, fmt.Errorf("entry %s of %s: %w", entry.ID, stream, err)
	}
	return message, nil
}

// read makes a message of an entry, in place: to copy it would cost as much. The body is the entry's, and the message's own
// from now on: what is handed over again is decoded again. After an error the message is worth nothing.
func (m *Message[T]) read(stream string, partition int, entry *wire.Entry, body []byte, decode func([]byte) (T, error)) (err error) {
	if !entry.HasBody {
		return fmt.Errorf("%w: there is no field %q", ErrMalformed, wire.FieldBody)
	}
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("%w: %w", ErrMalformed, newPanicError(reason))
		}
	}()
	if m.Value, err = decode(body); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, solid(err))
	}
	m.ID, m.Stream, m.Partition = entry.Text(), stream, partition
	m.Type, m.Key, m.CorrelationID, m.TraceParent = entry.Type, entry.Key, entry.CorrelationID, entry.TraceParent
	m.Headers, m.Body = Headers{entry.Headers}, body
	return nil
}

// JSON decodes a body that is exactly one JSON value. Anything behind that value is an error, and so is text
// that is not UTF-8: encoding/json would replace what it cannot read, and two keys that differ only there would
// start one workflow. JSON null decodes to the zero value, which an empty key will give away. The text of an
// error does not repeat the body; what it unwraps to may.
func JSON[T any](body []byte) (T, error) {
	var value T
	if !utf8.Valid(body) {
		return value, errors.New("body is not valid UTF-8")
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return value, errors.New("body is empty")
	}
	if err := json.Unmarshal(body, &value); err != nil {
		return value, withoutBody(err, value)
	}
	return value, nil
}

// withoutBody gives an error of encoding/json, or of a type's own UnmarshalJSON, a text that does not quote the
// body: what stands there may be an amount or an account.
func withoutBody(err error, value any) error {
	if syntax, found := errors.AsType[*json.SyntaxError](err); found {
		return syntax // which quotes one character
	}
	mismatch, found := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case !found:
		return &jsonError{fmt.Sprintf("body does not fit %T: %T", value, err), err}
	case mismatch.Field == "":
		return &jsonError{fmt.Sprintf("body, at byte %d, does not fit %s", mismatch.Offset, mismatch.Type), err}
	default:
		return &jsonError{fmt.Sprintf("field %s, at byte %d, does not fit %s", mismatch.Field, mismatch.Offset, mismatch.Type), err}
	}
}

type jsonError struct {
	text  string
	cause error
}

func (e *jsonError) Error() string { return e.text }

func (e *jsonError) Unwrap() error { return e.cause }
