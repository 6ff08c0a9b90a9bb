package restatetest_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redisevents/restatestart/restatetest"
)

func started(t *testing.T, keys ...string) *restatetest.Server {
	t.Helper()
	server := restatetest.New(t)
	for _, key := range keys {
		mustPost(t, server, key)
	}
	return server
}

func TestExpectOrderMarksTheFirstDifference(t *testing.T) {
	t.Parallel()
	server := started(t, "c-1", "c-30", "c-2", "c-2")
	var none failures
	server.ExpectOrder(&none, "BonusPayout", "c-1", "c-30", "c-2")
	server.ExpectOrder(&none, "Other")
	assert.Empty(t, none.text)

	var swapped, missing, unexpected failures
	server.ExpectOrder(&swapped, "BonusPayout", "c-1", "c-2", "c-30")
	assert.Equal(t, []string{"BonusPayout: 3 keys were started, 3 expected; the first difference is at 2\n" +
		"\t         expected  started\n" +
		"\t      1  \"c-1\"     \"c-1\"\n" +
		"\t>     2  \"c-2\"     \"c-30\"\n" +
		"\t      3  \"c-30\"    \"c-2\""}, swapped.text)
	server.ExpectOrder(&missing, "BonusPayout", "c-1", "c-30", "c-2", "c-4")
	assert.Contains(t, missing.text[0], "\n\t>     4  \"c-4\"     -")
	server.ExpectOrder(&unexpected, "BonusPayout", "c-1", "c-30")
	assert.Contains(t, unexpected.text[0], "\n\t>     3  -         \"c-2\"")
}

func TestExpectOrderShowsTheKeysAroundTheDifference(t *testing.T) {
	t.Parallel()
	keys := make([]string, 100)
	for i := range keys {
		keys[i] = fmt.Sprintf("c-%03d", i+1)
	}
	server := started(t, keys...)
	keys[69] = "a much longer key"
	var some failures
	server.ExpectOrder(&some, "BonusPayout", keys...)
	lines := strings.Split(some.text[0], "\n")
	assert.Len(t, lines, 22)
	assert.Contains(t, some.text[0], "\n\t>    70  \"a much longer key\"  \"c-070\"\n\t     71  \"c-071\"              \"c-071\"\n")
}

func TestExpectBodyMarksTheFirstDifference(t *testing.T) {
	t.Parallel()
	server := restatetest.New(t)
	long := strings.Repeat("x", 100)
	for key, body := range map[string]string{"c-1": `{"amount":5,"é":"` + "\n" + `"}`, "long": long + "a" + long} {
		mustDo(t, server.Client(), http.MethodPost, server.URL()+"/BonusPayout/"+key+"/run/send", body)
	}
	var none failures
	server.ExpectBody(&none, "BonusPayout", "c-1", `{"amount":5,"é":"`+"\n"+`"}`)
	assert.Empty(t, none.text)

	var some failures
	server.ExpectBody(&some, "BonusPayout", "c-1", `{"amount":50}`)
	server.ExpectBody(&some, "BonusPayout", "c-1", `{"amount":5,"é":"`+"\n"+`!"}`)
	server.ExpectBody(&some, "BonusPayout", "long", long+"b"+long)
	server.ExpectBody(&some, "BonusPayout", "c-2", ``)
	x60 := strings.Repeat("x", 60)
	assert.Equal(t, []string{
		"BonusPayout/c-1 was started with another body, different from byte 11 on\n" +
			"\texpected: {\"amount\":50}\n" +
			"\t     got: {\"amount\":5,\"é\":\"\\n\"}\n" +
			"\t                     ^",
		"BonusPayout/c-1 was started with another body, different from byte 19 on\n" +
			"\texpected: {\"amount\":5,\"é\":\"\\n!\"}\n" +
			"\t     got: {\"amount\":5,\"é\":\"\\n\"}\n" +
			"\t                             ^",
		"BonusPayout/long was started with another body, different from byte 100 on\n" +
			"\texpected: …" + x60 + "b" + x60[1:] + "…\n" +
			"\t     got: …" + x60 + "a" + x60[1:] + "…\n" +
			"\t           " + strings.Repeat(" ", 60) + "^",
		"BonusPayout/c-2 was not started",
	}, some.text)
}

// failures stands in for a test that may fail.
type failures struct{ text []string }

func (f *failures) Helper()        {}
func (f *failures) Cleanup(func()) {}
func (f *failures) Errorf(format string, args ...any) {
	f.text = append(f.text, fmt.Sprintf(format, args...))
}

func TestExpectStartedListsTheDifference(t *testing.T) {
	t.Parallel()
	server := restatetest.New(t)
	for _, key := range []string{"c-2", "c-1", "c-3"} {
		mustPost(t, server, key)
	}
	var none failures
	server.ExpectStarted(&none, "BonusPayout", "c-3", "c-1", "c-2", "c-1")
	server.ExpectStarted(&none, "Other")
	assert.Empty(t, none.text)

	var some failures
	server.ExpectStarted(&some, "BonusPayout", "c-1", "c-9", "c-8")
	assert.Equal(t, []string{"BonusPayout: 3 keys were started, 3 expected\n" +
		"\tnot started: [\"c-8\" \"c-9\"]\n\tstarted unexpectedly: [\"c-2\" \"c-3\"]"}, some.text)

	var many failures
	keys := make([]string, 25)
	for i := range keys {
		keys[i] = fmt.Sprint("k-", i)
	}
	server.ExpectStarted(&many, "Other", keys...)
	assert.Contains(t, many.text[0], "and 5 more")
}
