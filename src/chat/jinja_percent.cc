// text % values, as C's printf and Python have it.
#include <algorithm>
#include <cmath>

#include "chat/jinja_builtins.h"
#include "chat/jinja_number_format.h"
#include "unicode/utf8.h"

namespace penstock::chat::jinja {
namespace {

using std::string_view;

class Percent {
 public:
  Percent(Interp& interp, string_view text, const Value& values)
      : interp_(interp), rest_(text), values_(values) {}

  Value Run() {
    TextBuilder out(interp_.heap());
    while (true) {
      interp_.Step();
      const size_t sign = rest_.find('%');
      out.Add(rest_.substr(0, sign));
      if (sign == rest_.npos) break;
      rest_.remove_prefix(sign + 1);
      One(&out);
    }
    const bool tuple = values_.is(Kind::kTuple);
    const bool ignored = values_.is_dict() || values_.is(Kind::kList) || values_.is(Kind::kRange) ||
                         values_.is_undefined();
    const size_t count = tuple ? values_.as<ListObject>().items.size() : 1;
    if (next_ < count && (tuple || !ignored)) Fail("not all values are used by the format");
    return out.Done();
  }

 private:
  char Take() {
    if (rest_.empty()) Fail("a format is not complete");
    const char c = rest_[0];
    rest_.remove_prefix(1);
    return c;
  }
  Value Next() {
    if (named_ != nullptr) return *named_;
    if (values_.is(Kind::kTuple)) {
      const auto& items = values_.as<ListObject>().items;
      if (next_ >= items.size()) Fail("a format has more signs than values");
      return items[next_++];
    }
    if (next_++ > 0) Fail("a format has more signs than values");
    return values_;
  }
  // A width or a precision: digits, or '*' for a value.
  int TakeNumber() {
    if (rest_.starts_with('*')) {
      rest_.remove_prefix(1);
      const int64_t number = IntArg(Next(), 0);
      if (number > kFormatWidthMax || number < -kFormatWidthMax) {
        FailLimit("a format is too wide");
      }
      return static_cast<int>(number);
    }
    int64_t number = 0;
    while (!rest_.empty() && rest_[0] >= '0' && rest_[0] <= '9') {
      number = number * 10 + (rest_[0] - '0');
      if (number > kFormatWidthMax) FailLimit("a format is too wide");
      rest_.remove_prefix(1);
    }
    return static_cast<int>(number);
  }
  void Name() {
    int open = 1;
    size_t end = 0;
    for (; end < rest_.size() && open > 0; ++end) {
      open += rest_[end] == '(' ? 1 : rest_[end] == ')' ? -1 : 0;
    }
    if (open > 0) Fail("a format is not complete");
    if (!values_.is_dict()) Fail("a format with names needs a dict");
    named_ = values_.as<DictObject>().Find(rest_.substr(0, end - 1));
    if (named_ == nullptr) {
      Fail("a format has no value '" + Shown(rest_.substr(0, end - 1)) + "'");
    }
    rest_.remove_prefix(end);
  }

  void One(TextBuilder* out) {
    FormatSpec spec;
    named_ = nullptr;
    if (rest_.starts_with('(')) {
      rest_.remove_prefix(1);
      Name();
    }
    bool zero = false;
    for (; !rest_.empty() && string_view("#0- +").find(rest_[0]) != string_view::npos;
         rest_.remove_prefix(1)) {
      const char flag = rest_[0];
      zero |= flag == '0';
      spec.alternate |= flag == '#';
      if (flag == '-') spec.align = '<';
      if (flag == '+' || (flag == ' ' && spec.sign != '+')) spec.sign = flag;
    }
    spec.width = TakeNumber();
    if (spec.width < 0) {
      spec.width = -spec.width;
      spec.align = '<';
    }
    if (rest_.starts_with('.')) {
      rest_.remove_prefix(1);
      spec.precision = std::max(TakeNumber(), 0);
    }
    while (!rest_.empty() && string_view("hlL").find(rest_[0]) != string_view::npos) Take();
    spec.type = Take();
    if (zero && spec.align == 0) {
      spec.fill = "0";
      spec.align = '=';
    }
    Converted(spec, out);
  }

  void Converted(FormatSpec& spec, TextBuilder* out) {
    if (spec.type == '%') return out->Add("%");
    const Value value = Next();
    switch (spec.type) {
      case 's':
      case 'r':
      case 'a':
      case 'c':
        return Text(spec, value, out);
      case 'd':
      case 'i':
      case 'u':
      case 'o':
      case 'x':
      case 'X':
        return Int(spec, value, out);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G': {
        if (!value.is_number()) Fail("a number is expected for a format");
        const double number = value.real();
        const bool negative = std::signbit(number) && !std::isnan(number);
        const std::string head = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
        return AddPadded(spec, head,
                         FloatDigits(std::fabs(number), spec.type,
                                     spec.precision < 0 ? 6 : spec.precision, spec.alternate),
                         true, out);
      }
      default:
        Fail("a format has an unknown sign");
    }
  }

  void Text(FormatSpec& spec, const Value& value, TextBuilder* out) {
    TextBuilder all(interp_.heap());
    if (spec.type == 'c') {
      if (value.is_int() && value.integer() >= 0 && value.integer() <= 0x10FFFF) {
        std::string character;
        unicode::AppendUtf8(static_cast<char32_t>(value.integer()), &character);
        all.Add(character);
      } else if (value.is_string() && interp_.Length(value) == 1) {
        all.Add(value.text());
      } else {
        Fail("a character is expected for a format");
      }
      spec.precision = -1;
    } else {
      spec.type == 's' ? interp_.AppendStr(value, &all) : interp_.AppendRepr(value, &all);
    }
    string_view text = all.view();
    if (spec.precision >= 0) {
      size_t at = 0;
      for (int i = 0; i < spec.precision && at < text.size(); ++i)
        at += unicode::Utf8Length(text[at]);
      text = text.substr(0, at);
    }
    spec.fill = " ";
    AddPadded(spec, "", text, true, out);
  }

  void Int(const FormatSpec& spec, const Value& value, TextBuilder* out) {
    int64_t number = 0;
    const bool decimal = spec.type == 'd' || spec.type == 'i' || spec.type == 'u';
    if (value.is_int()) {
      number = value.integer();
    } else if (value.is_float() && decimal && std::fabs(value.real()) < 9.2e18) {
      number = static_cast<int64_t>(value.real());
    } else {
      Fail("an integer is expected for a format");
    }
    const uint64_t size = number < 0 ? 0 - static_cast<uint64_t>(number) : number;
    std::string digits = IntDigits(size, decimal ? 'd' : spec.type);
    if (spec.precision > static_cast<int>(digits.size())) {
      digits.insert(0, spec.precision - digits.size(), '0');
    }
    std::string head = number < 0 ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
    if (spec.alternate && !decimal) head += std::string("0") + spec.type;
    AddPadded(spec, head, digits, true, out);
  }

  Interp& interp_;
  string_view rest_;
  const Value& values_;
  const Value* named_ = nullptr;
  size_t next_ = 0;
};

}  // namespace

Value FormatPercent(Interp& interp, const Value& text, const Value& values) {
  Value out = Percent(interp, text.text(), values).Run();
  return text.is_markup() ? std::move(out).AsMarkup() : out;
}

}  // namespace penstock::chat::jinja
