package restatestart_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/redisevents/restatestart"
)

func TestATraceParentIsReadAsW3CSays(t *testing.T) {
	t.Parallel()
	const ids = producerTrace + "-" + producerSpan
	for text, valid := range map[string]bool{
		producer: true, "00-" + ids + "-00": true, "00-" + ids + "-ff": true, "cc-" + ids + "-01-more": true, "01-" + ids + "-01": true,
		"": false, "00-junk": false, "ff-" + ids + "-01": false, "00-" + ids + "-01-more": false, "01-" + ids + "-01more": false,
		"00-" + ids + "-0g": false, "0G-" + ids + "-01": false, strings.ToUpper(producer): false, "00_" + ids + "-01": false,
		"00-" + strings.Repeat("0", 32) + "-" + producerSpan + "-01":  false,
		"00-" + producerTrace + "-" + strings.Repeat("0", 16) + "-01": false,
		"01-" + ids + "-01-" + strings.Repeat("x", 300):               false, "01-" + ids + "-01-x\n": false,
	} {
		read, ok := restatestart.ParseTraceParent(text)
		assert.Equal(t, valid, ok, text)
		if ok {
			assert.Equal(t, producerTrace, read.TraceID().String())
			assert.Equal(t, producerSpan, read.SpanID().String())
			assert.True(t, read.IsRemote())
		}
	}
}

// Whatever OpenTelemetry's own propagator reads, this reads the same.
func FuzzTraceParent(f *testing.F) {
	f.Add(producer)
	f.Add("01-" + producerTrace + "-" + producerSpan + "-03-more")
	f.Add("00-" + producerTrace + "-" + producerSpan + "-0x")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		read, ok := restatestart.ParseTraceParent(text)
		carrier := propagation.MapCarrier{"traceparent": text}
		theirs := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(t.Context(), carrier))
		if !theirs.IsValid() {
			return // it also refuses flags that are not known yet
		}
		rest := text[min(len(text), 55):]
		fit := len(text) <= 256 && strings.Trim(rest, "!\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~") == ""
		if assert.Equal(t, fit, ok, "%q", text) && ok {
			assert.True(t, read.Equal(theirs), "%v, not %v", read, theirs)
		}
	})
}
