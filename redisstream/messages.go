package redisstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/text"
	"github.com/redisevents/restatestart/internal/wire"
)

// ErrMalformed is wrapped by the error for an entry that cannot be decoded: its body is missing, or the decoder failed.
var ErrMalformed = errors.New("malformed entry")

// NewMessage makes a Message from an entry that a service's own go-redis loop has read, for use with Starter.Handle. The
// stream is the key that the entry was read from, and the partition its number within the topic (0 where there are
// none). It returns an error wrapping ErrMalformed when the entry has no field `b`, or when decode returns an error or
// panics. Where a field occurs twice, go-redis keeps the last one.
func NewMessage[T any](stream string, partition int, entry redis.XMessage, decode func([]byte) (T, error)) (restatestart.Message[T], error) {
	id, err := wire.ParseID(entry.ID)
	if err != nil {
		return restatestart.Message[T]{}, fmt.Errorf("%w in %s: %w", ErrMalformed, stream, err)
	}
	decoded := wire.Decode(id, entry.Values)
	var message restatestart.Message[T]
	if err := decodeInto(&message, stream, partition, &decoded, []byte(decoded.Body), decode); err != nil {
		return restatestart.Message[T]{}, fmt.Errorf("entry %s of %s: %w", entry.ID, stream, err)
	}
	return message, nil
}

// decodeInto makes a message from an entry, in place: copying it would cost as much. The message owns the body: what is
// redelivered is decoded again. After an error the message is not usable.
func decodeInto[T any](m *restatestart.Message[T], stream string, partition int, entry *wire.Entry, body []byte, decode func([]byte) (T, error)) (err error) {
	if !entry.HasBody {
		return fmt.Errorf("%w: there is no field %q", ErrMalformed, wire.FieldBody)
	}
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("%w: %w", ErrMalformed, newPanicError(reason))
		}
	}()
	if m.Value, err = decode(body); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, text.SafeError(err))
	}
	m.ID, m.Stream, m.Partition = entry.Text(), stream, partition
	m.Type, m.Key, m.CorrelationID, m.TraceParent = entry.Type, entry.Key, entry.CorrelationID, entry.TraceParent
	m.Headers, m.Body = restatestart.Headers(entry.Headers), body
	return nil
}

func newPanicError(value any) *restatestart.PanicError {
	return &restatestart.PanicError{Value: value, Stack: debug.Stack()}
}

// JSON decodes a body that is exactly one JSON value. Anything behind that value is an error, and so is text that is not
// valid UTF-8: encoding/json would replace the invalid bytes, and two keys that differ only there would start one
// workflow. JSON null decodes to the zero value, and then usually fails for its empty key. The text of an error does not
// repeat the body; the error it unwraps to may.
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

// withoutBody gives an error from encoding/json, or from a type's own UnmarshalJSON, a text that does not quote the body,
// which may hold an amount or an account.
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
