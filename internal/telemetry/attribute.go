package telemetry

import (
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/redisevents/restatestart/internal/text"
)

// maxAttribute is how many bytes of a text go into a span or a metric; a workflow key may be 64 KiB long.
const maxAttribute = 256

// Text is an attribute that is valid UTF-8 and of bounded length, whatever the value.
func Text(name, value string) attribute.KeyValue { return attribute.String(name, Clean(value)) }

// Clean makes a text valid UTF-8 of at most 256 bytes.
func Clean(value string) string {
	if len(value) <= maxAttribute && utf8.ValidString(value) {
		return value
	}
	return text.Cut(strings.ToValidUTF8(text.Cut(value, 4*maxAttribute), "\uFFFD"), maxAttribute)
}

// Adds prepares the attributes of a counter's measurements: a measurement that nobody records then allocates nothing.
func Adds(attributes ...attribute.KeyValue) []metric.AddOption {
	return []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(attributes...))}
}

// Records prepares those of a histogram's.
func Records(attributes ...attribute.KeyValue) []metric.RecordOption {
	return []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(attributes...))}
}
