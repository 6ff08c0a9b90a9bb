// Package text makes texts of foreign origin (names, answers, errors) fit for an error, a log line or a span: one
// line, valid UTF-8, of bounded length.
package text

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxName  = 80  // bytes; a workflow key may be 64 KiB long
	maxError = 512 // bytes of one cause
)

// OneLine folds white space and drops control characters.
func OneLine(text string) string {
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "\uFFFD"), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
}

// Cut shortens a text to at most limit bytes, between characters.
func Cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const more = "…"
	end := limit - len(more)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + more
}

// QuoteName shortens a name to 80 bytes, and quotes it where it holds anything that needs an escape.
func QuoteName(name string) string {
	name = Cut(name, maxName)
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` {
		return quoted
	}
	return name
}

// ErrorLine is an error in one line of at most 512 bytes; it is empty for nil.
func ErrorLine(err error) string {
	if err == nil {
		return ""
	}
	return Cut(OneLine(SafeError(err).Error()), maxError)
}

// SafeError returns an error whose Error method does not panic: err itself, or one that names its type. A typed nil
// pointer is not nil as an error, and most error types panic when such a one is asked for its text.
func SafeError(err error) (safe error) {
	if err == nil {
		return nil
	}
	defer func() {
		if recover() != nil {
			safe = fmt.Errorf("an error of type %T that has no text", err)
		}
	}()
	_ = err.Error()
	return err
}
