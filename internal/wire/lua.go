package wire

// LuaIDs parses and compares ids in a server-side script. It accepts the ids that ParseID accepts. Lua's numbers cannot
// hold 64 bits, so the halves are compared as text: of two numbers without leading zeros the longer one is the greater.
//
// parse returns the halves of an id or of a position's value, and nil for anything else. ahead reports whether the first
// id is greater than the second.
const LuaIDs = `
local function below(a, b)
  if #a ~= #b then return #a < #b end
  return a < b
end
local function number(text)
  text = text:gsub('^0+(%d)', '%1')
  if below('18446744073709551615', text) then return nil end
  return text
end
local function parse(value)
  if not value then return nil end
  local ms, seq = value:match('^(%d+)%-(%d+)$')
  if not ms then ms, seq = value:match('^(%d+)%-(%d+)|') end
  if not ms then return nil end
  ms, seq = number(ms), number(seq)
  if not ms or not seq then return nil end
  return ms, seq
end
local function ahead(ms, seq, otherMs, otherSeq)
  return below(otherMs, ms) or (otherMs == ms and below(otherSeq, seq))
end
`
