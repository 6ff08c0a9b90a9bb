package telemetry

import (
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/redisevents/restatestart/internal/text"
)

// maxAttribute is how many bytes of a text go on a span or a metric; a workflow key may have 64 KiB.
const maxAttribute = 256

// Text is an attribute with a cleaned value: see Clean.
func Text(name, value string) attribute.KeyValue { return attribute.String(name, Clean(value)) }

// Clean makes a text valid UTF-8 and cuts it to 256 bytes.
func Clean(value string) string {
	if len(value) <= maxAttribute && utf8.ValidString(value) {
		return value
	}
	return text.Cut(strings.ToValidUTF8(text.Cut(value, 4*maxAttribute), "\uFFFD"), maxAttribute)
}

// Adds prepares the attributes of a counter, so that an Add that is not recorded allocates nothing.
func Adds(attributes ...attribute.KeyValue) []metric.AddOption {
	return []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(attributes...))}
}

// Records prepares the attributes of a histogram likewise.
func Records(attributes ...attribute.KeyValue) []metric.RecordOption {
	return []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(attributes...))}
}

// ConsumerScope is the instrumentation scope of consumers, the same as that of the .NET package.
const ConsumerScope = "RedisEvents"

// ConsumerAttributes are the attributes of all metrics of a consumer. An empty keyPrefix is left out.
func ConsumerAttributes(topic, consumer, keyPrefix string) []attribute.KeyValue {
	attributes := []attribute.KeyValue{Text("topic", topic), Text("consumer", consumer)}
	if keyPrefix != "" {
		attributes = append(attributes, Text("key_prefix", keyPrefix))
	}
	return attributes
}
