package stream

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/wire"
)

// decodePage decodes a reply that fits one page.
func decodePage(raw string, types map[string]bool) (Page, error) {
	pages, err := decodePages([]byte(raw), 1<<30, types)
	if len(pages) == 0 {
		return Page{}, err
	}
	return pages[0], err
}

// bulk encodes strings as Redis does.
func bulk(texts ...string) string {
	var sent strings.Builder
	for _, text := range texts {
		fmt.Fprintf(&sent, "$%d\r\n%s\r\n", len(text), text)
	}
	return sent.String()
}

// sent is the reply to an XREAD of one stream, in either protocol.
func sent(protocol int, entries ...string) string {
	list := fmt.Sprintf("*%d\r\n%s", len(entries), strings.Join(entries, ""))
	if protocol == 3 {
		return "%1\r\n" + bulk("s:{bets}:0") + list
	}
	return "*1\r\n*2\r\n" + bulk("s:{bets}:0") + list
}

func entry(id string, fields ...string) string {
	return "*2\r\n" + bulk(id) + fmt.Sprintf("*%d\r\n", len(fields)) + bulk(fields...)
}

func TestAReplyIsDecodedInEitherProtocol(t *testing.T) {
	t.Parallel()
	for _, protocol := range []int{2, 3} {
		page, err := decodePage(sent(protocol,
			entry("1726000000000-7", "b", "{}\r\n$5", "t", "A", "k", "", "c", "corr", "p", "00-x", "h", "1:a1:b", "unknown", "x"),
			entry("1726000000000-8", "b", "first", "b", "last"),
			entry("1726000000001-0"),
		), nil)
		require.NoError(t, err)
		id := wire.ID{Ms: 1726000000000, Seq: 7}
		assert.Equal(t, Page{Read: 3, Last: wire.ID{Ms: 1726000000001}, Entries: []wire.Entry{
			{ID: id, Name: "1726000000000-7", Body: "{}\r\n$5", HasBody: true, Type: "A", CorrelationID: "corr", TraceParent: "00-x", Headers: "1:a1:b"},
			{ID: wire.ID{Ms: 1726000000000, Seq: 8}, Name: "1726000000000-8", Body: "last", HasBody: true},
			{ID: wire.ID{Ms: 1726000000001}, Name: "1726000000001-0"},
		}}, page)
	}
}

func TestAnEmptyReplyHasNoPage(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{"*-1\r\n", "_\r\n", "*0\r\n", "%0\r\n", "$-1\r\n"} {
		page, err := decodePage(raw, nil)
		if raw == "$-1\r\n" {
			require.ErrorIs(t, err, errReply)
			continue
		}
		require.NoError(t, err, raw)
		assert.Zero(t, page)
	}
}

func TestOnlyEntriesOfAWantedTypeAreKept(t *testing.T) {
	t.Parallel()
	source := NewRedis(nil, wire.Keys{}, []string{"A", ""})
	page, err := decodePage(sent(2, entry("1-0", "t", "A"), entry("2-0", "t", "B"), entry("3-0", "b", "x"), entry("4-0", "t", "B", "t", "A"), entry("5-0", "t", "")), source.types)
	require.NoError(t, err)
	var kept []string
	for _, entry := range page.Entries {
		kept = append(kept, entry.Name)
	}
	assert.Equal(t, []string{"1-0", "4-0", "5-0"}, kept, "an entry without a type is of none")
	assert.Equal(t, 5, page.Read)
	assert.Equal(t, wire.ID{Ms: 5}, page.Last)
}

// Each page has a batch of wanted entries. Other entries belong to the page of the one before them.
func TestAReplyIsCutIntoPagesOfABatch(t *testing.T) {
	t.Parallel()
	raw := sent(2, entry("1-0", "t", "B"), entry("2-0", "t", "A", "b", "two"), entry("3-0", "t", "B"), entry("4-0", "t", "A", "b", "four"),
		entry("5-0", "t", "B"), entry("6-0", "t", "A", "b", "six"), entry("7-0", "t", "B"))
	kept := func(id uint64, name, body string) wire.Entry {
		return wire.Entry{ID: wire.ID{Ms: id}, Name: name, Body: body, HasBody: true, Type: "A"}
	}
	pages, err := decodePages([]byte(raw), 2, map[string]bool{"A": true})
	require.NoError(t, err)
	assert.Equal(t, []Page{
		{Read: 5, Last: wire.ID{Ms: 5}, Entries: []wire.Entry{kept(2, "2-0", "two"), kept(4, "4-0", "four")}},
		{Read: 2, Last: wire.ID{Ms: 7}, Entries: []wire.Entry{kept(6, "6-0", "six")}},
	}, pages)

	pages, err = decodePages([]byte(raw), 3, nil)
	require.NoError(t, err)
	var read []int
	for _, page := range pages {
		read = append(read, page.Read)
		assert.Len(t, page.Entries, page.Read)
	}
	assert.Equal(t, []int{3, 3, 1}, read)

	pages, err = decodePages([]byte(raw), 2, map[string]bool{})
	require.NoError(t, err)
	assert.Equal(t, []Page{{Read: 7, Last: wire.ID{Ms: 7}, Entries: []wire.Entry{}}}, pages, "nothing to deliver, and a position to move to")
}

func TestAnErrorReplyIsAServerError(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{"-WRONGTYPE Operation\r\n", "!19\r\nWRONGTYPE Operation\r\n"} {
		_, err := decodePage(raw, nil)
		require.EqualError(t, err, "WRONGTYPE Operation")
		var server interface{ RedisError() }
		require.ErrorAs(t, err, &server)
	}
}

func TestAMalformedReplyIsAnError(t *testing.T) {
	t.Parallel()
	whole := sent(2, entry("1-0", "b", "x"))
	for cut := range whole {
		_, err := decodePage(whole[:cut], nil)
		require.ErrorIs(t, err, errReply, "%q", whole[:cut])
	}
	for _, raw := range []string{
		"", "+OK\r\n", ":1\r\n", "*2\r\n", "%2\r\n", "*1\r\n*3\r\n", "*x\r\n", "*-2\r\n", "*99999999999999999999\r\n",
		"*1\r\n*2\r\n$1\r\ns\r\n*9999999\r\n", sent(2, entry("1")), sent(2, entry("1-0", "b")), sent(2, "*3\r\n"),
		whole + "x", whole + whole, "*-1\r\n*-1\r\n", "*1\r\n*2\r\n$1\r\nsxx*0\r\n", sent(2, "*2\r\n$3\r\n1-0\r\n*2\r\n$1\r\nb\r\n:1\r\n"),
	} {
		_, err := decodePage(raw, nil)
		require.ErrorIs(t, err, errReply, "%q", raw)
	}
}

// Decoding any reply ends, and takes no more memory than the reply has bytes.
func FuzzPage(f *testing.F) {
	f.Add(sent(2, entry("1-0", "b", "x", "t", "A")))
	f.Add(sent(3, entry("1-0", "b", "x"), entry("2-0")))
	f.Add("*1\r\n*2\r\n$1\r\ns\r\n*1000000000\r\n")
	f.Add("-ERR no\r\n")
	f.Fuzz(func(t *testing.T, raw string) {
		page, err := decodePage(raw, nil)
		if err == nil && (page.Read != len(page.Entries) || page.Read > len(raw)) {
			t.Fatalf("%d entries, %d kept, of %d bytes", page.Read, len(page.Entries), len(raw))
		}
	})
}
