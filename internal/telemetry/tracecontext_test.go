package telemetry_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/redisevents/restatestart/internal/telemetry"
	"github.com/redisevents/restatestart/internal/testkit"
)

func TestATraceParentIsReadAsW3CDefinesIt(t *testing.T) {
	t.Parallel()
	const ids = testkit.ProducerTrace + "-" + testkit.ProducerSpan
	for text, valid := range map[string]bool{
		testkit.Producer: true, "00-" + ids + "-00": true, "00-" + ids + "-ff": true, "cc-" + ids + "-01-more": true, "01-" + ids + "-01": true,
		"": false, "00-junk": false, "ff-" + ids + "-01": false, "00-" + ids + "-01-more": false, "01-" + ids + "-01more": false,
		"00-" + ids + "-0g": false, "0G-" + ids + "-01": false, strings.ToUpper(testkit.Producer): false, "00_" + ids + "-01": false,
		"00-" + strings.Repeat("0", 32) + "-" + testkit.ProducerSpan + "-01":  false,
		"00-" + testkit.ProducerTrace + "-" + strings.Repeat("0", 16) + "-01": false,
		"01-" + ids + "-01-" + strings.Repeat("x", 300):                       false, "01-" + ids + "-01-x\n": false,
	} {
		read, ok := telemetry.ParseTraceParent(text)
		assert.Equal(t, valid, ok, text)
		if ok {
			assert.Equal(t, testkit.ProducerTrace, read.TraceID().String())
			assert.Equal(t, testkit.ProducerSpan, read.SpanID().String())
			assert.True(t, read.IsRemote())
		}
	}
}

// It agrees with OpenTelemetry's propagator, except on flags that are not defined yet.
func FuzzTraceParent(f *testing.F) {
	f.Add(testkit.Producer)
	f.Add("01-" + testkit.ProducerTrace + "-" + testkit.ProducerSpan + "-03-more")
	f.Add("00-" + testkit.ProducerTrace + "-" + testkit.ProducerSpan + "-0x")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		read, ok := telemetry.ParseTraceParent(text)
		carrier := propagation.MapCarrier{"traceparent": text}
		theirs := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(t.Context(), carrier))
		if !theirs.IsValid() {
			return
		}
		rest := text[min(len(text), 55):]
		fit := len(text) <= 256 && strings.Trim(rest, "!\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~") == ""
		if assert.Equal(t, fit, ok, "%q", text) && ok {
			assert.True(t, read.Equal(theirs), "%v, not %v", read, theirs)
		}
	})
}
