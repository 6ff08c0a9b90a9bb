package text_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/text"
)

func TestTextsAreOneLineAndBounded(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "a b c\uFFFD", text.OneLine("\ta\r\n b\x00c\xff\n"))
	assert.Equal(t, "abc", text.Cut("abc", 3))
	assert.Equal(t, "é…", text.Cut("ééé", 5))
	assert.Equal(t, "é…", text.Cut("éééé", 6), "between characters")
	assert.Equal(t, "BonusPayout", text.QuoteName("BonusPayout"))
	assert.Equal(t, `"a\nb"`, text.QuoteName("a\nb"))
	assert.Len(t, text.QuoteName(strings.Repeat("k", 1000)), 80)
	assert.Empty(t, text.ErrorLine(nil))
	assert.Equal(t, "one two", text.ErrorLine(errors.New("one\ntwo")))
	assert.Len(t, text.ErrorLine(errors.New(strings.Repeat("e", 1000))), 512)
}

func TestAnErrorWhoseTextPanicsIsNamedByItsType(t *testing.T) {
	t.Parallel()
	fine := errors.New("fine")
	assert.Same(t, fine, text.SafeError(fine))
	require.NoError(t, text.SafeError(nil))
	require.EqualError(t, text.SafeError((*url.Error)(nil)), "an error of type *url.Error that has no text")
}
