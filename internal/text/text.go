// Package text makes names, answers and errors of foreign origin safe for an error, a log line or a span: one line, valid UTF-8,
// of bounded length.
package text

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxName  = 80  // bytes
	maxError = 512 // bytes
)

// OneLine replaces each run of white space and control characters by a space, and bytes that are not UTF-8 by U+FFFD.
func OneLine(text string) string {
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "\uFFFD"), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
}

// Cut shortens a text to at most limit bytes, between characters, with … at its end.
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

// QuoteName shortens a name to 80 bytes, and quotes it if it has characters that need an escape.
func QuoteName(name string) string {
	name = Cut(name, maxName)
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` {
		return quoted
	}
	return name
}

// ErrorLine is the text of an error in one line of at most 512 bytes, empty for nil.
func ErrorLine(err error) string {
	if err == nil {
		return ""
	}
	return Cut(OneLine(SafeError(err).Error()), maxError)
}

// SafeError returns err, or an error that names its type when its Error method panics, as that of a nil pointer often does.
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
