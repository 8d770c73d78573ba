// The builtins as LLVM IR text. Each function is a module of its own, so that an image carries only what it calls.
// Inside, conversions are bit operations: a half-precision instruction would call the very function that it is in.
#include "codegen/builtins.h"

#include "codegen/emit.h"
#include "codegen/link.h"
#include "support/error.h"

#include <map>
#include <mutex>

namespace oxyfuel::codegen {
namespace {

/// A function and the helpers that its text calls, which become part of it.
struct Builtin {
  std::string_view name;
  const char *text;
  const char *helpers[2] = {"", ""};
};

/// Copies forward when the destination does not begin inside the source, else backward; 32 bytes at a time, then bytes.
/// Serves as memcpy too.
constexpr const char *kMove = R"(
define internal ptr @move(ptr %to, ptr %from, i64 %size) alwaysinline {
entry:
  %a = ptrtoint ptr %to to i64
  %b = ptrtoint ptr %from to i64
  %distance = sub i64 %a, %b
  %forward = icmp uge i64 %distance, %size
  %wide = and i64 %size, -32
  br i1 %forward, label %up.head, label %down.tail
up.head:
  %i = phi i64 [ 0, %entry ], [ %i.next, %up.wide ]
  %i.more = icmp ult i64 %i, %wide
  br i1 %i.more, label %up.wide, label %up.tail
up.wide:
  %i.from = getelementptr i8, ptr %from, i64 %i
  %i.to = getelementptr i8, ptr %to, i64 %i
  %i.value = load <32 x i8>, ptr %i.from, align 1
  store <32 x i8> %i.value, ptr %i.to, align 1
  %i.next = add i64 %i, 32
  br label %up.head
up.tail:
  %j = phi i64 [ %i, %up.head ], [ %j.next, %up.byte ]
  %j.more = icmp ult i64 %j, %size
  br i1 %j.more, label %up.byte, label %done
up.byte:
  %j.from = getelementptr i8, ptr %from, i64 %j
  %j.to = getelementptr i8, ptr %to, i64 %j
  %j.value = load i8, ptr %j.from, align 1
  store i8 %j.value, ptr %j.to, align 1
  %j.next = add i64 %j, 1
  br label %up.tail
down.tail:
  %k = phi i64 [ %size, %entry ], [ %k.next, %down.byte ]
  %k.more = icmp ugt i64 %k, %wide
  br i1 %k.more, label %down.byte, label %down.head
down.byte:
  %k.next = sub i64 %k, 1
  %k.from = getelementptr i8, ptr %from, i64 %k.next
  %k.to = getelementptr i8, ptr %to, i64 %k.next
  %k.value = load i8, ptr %k.from, align 1
  store i8 %k.value, ptr %k.to, align 1
  br label %down.tail
down.head:
  %l = phi i64 [ %wide, %down.tail ], [ %l.next, %down.wide ]
  %l.more = icmp ugt i64 %l, 0
  br i1 %l.more, label %down.wide, label %done
down.wide:
  %l.next = sub i64 %l, 32
  %l.from = getelementptr i8, ptr %from, i64 %l.next
  %l.to = getelementptr i8, ptr %to, i64 %l.next
  %l.value = load <32 x i8>, ptr %l.from, align 1
  store <32 x i8> %l.value, ptr %l.to, align 1
  br label %down.head
done:
  ret ptr %to
})";

constexpr const char *kMemset = R"(
define ptr @memset(ptr %to, i32 %value, i64 %size) {
entry:
  %byte = trunc i32 %value to i8
  %first = insertelement <32 x i8> poison, i8 %byte, i64 0
  %bytes = shufflevector <32 x i8> %first, <32 x i8> poison, <32 x i32> zeroinitializer
  %wide = and i64 %size, -32
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i.next, %body ]
  %i.more = icmp ult i64 %i, %wide
  br i1 %i.more, label %body, label %tail
body:
  %i.to = getelementptr i8, ptr %to, i64 %i
  store <32 x i8> %bytes, ptr %i.to, align 1
  %i.next = add i64 %i, 32
  br label %head
tail:
  %j = phi i64 [ %i, %head ], [ %j.next, %one ]
  %j.more = icmp ult i64 %j, %size
  br i1 %j.more, label %one, label %done
one:
  %j.to = getelementptr i8, ptr %to, i64 %j
  store i8 %byte, ptr %j.to, align 1
  %j.next = add i64 %j, 1
  br label %tail
done:
  ret ptr %to
})";

/// Long division of the significands, 11 bits of the quotient a step: a remainder below 2^53 leaves room for that in 64
/// bits. A subnormal number counts as having exponent 1 and no implicit bit.
constexpr const char *kRemainder = R"(
define internal double @remainder(double %x, double %y) alwaysinline {
entry:
  %xb = bitcast double %x to i64
  %yb = bitcast double %y to i64
  %sign = and i64 %xb, -9223372036854775808
  %ax = and i64 %xb, 9223372036854775807
  %ay = and i64 %yb, 9223372036854775807
  %x.bad = icmp uge i64 %ax, 9218868437227405312
  %y.nan = icmp ugt i64 %ay, 9218868437227405312
  %y.zero = icmp eq i64 %ay, 0
  %bad.1 = or i1 %x.bad, %y.nan
  %bad = or i1 %bad.1, %y.zero
  br i1 %bad, label %invalid, label %compare
invalid:
  %product = fmul double %x, %y
  %nan = fdiv double %product, %product
  ret double %nan
compare:
  %small = icmp ult i64 %ax, %ay
  br i1 %small, label %same, label %divide
same:
  ret double %x
divide:
  %xe.0 = lshr i64 %ax, 52
  %xe = call i64 @llvm.umax.i64(i64 %xe.0, i64 1)
  %ye.0 = lshr i64 %ay, 52
  %ye = call i64 @llvm.umax.i64(i64 %ye.0, i64 1)
  %xe.less = sub i64 %xe, 1
  %xe.field = shl i64 %xe.less, 52
  %xm = sub i64 %ax, %xe.field
  %ye.less = sub i64 %ye, 1
  %ye.field = shl i64 %ye.less, 52
  %ym = sub i64 %ay, %ye.field
  %r.0 = urem i64 %xm, %ym
  %n.0 = sub i64 %xe, %ye
  br label %head
head:
  %r = phi i64 [ %r.0, %divide ], [ %r.next, %step ]
  %n = phi i64 [ %n.0, %divide ], [ %n.next, %step ]
  %n.more = icmp ne i64 %n, 0
  %r.more = icmp ne i64 %r, 0
  %more = and i1 %n.more, %r.more
  br i1 %more, label %step, label %pack
step:
  %s = call i64 @llvm.umin.i64(i64 %n, i64 11)
  %r.shifted = shl i64 %r, %s
  %r.next = urem i64 %r.shifted, %ym
  %n.next = sub i64 %n, %s
  br label %head
pack:
  %zeros = call i64 @llvm.ctlz.i64(i64 %r, i1 false)
  %room = sub i64 %zeros, 11
  %shift = call i64 @llvm.umin.i64(i64 %room, i64 %ye.less)
  %m.0 = shl i64 %r, %shift
  %e.0 = sub i64 %ye.less, %shift
  %r.zero = icmp eq i64 %r, 0
  %e = select i1 %r.zero, i64 0, i64 %e.0
  %m = select i1 %r.zero, i64 0, i64 %m.0
  %e.field = shl i64 %e, 52
  %magnitude = add i64 %e.field, %m
  %bits = or i64 %magnitude, %sign
  %result = bitcast i64 %bits to double
  ret double %result
}
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.ctlz.i64(i64, i1))";

/// The remainder of two float32 numbers is a float32 number, so the detour through float64 is exact.
constexpr const char *kFmodf = R"(
define float @fmodf(float %x, float %y) {
  %xw = fpext float %x to double
  %yw = fpext float %y to double
  %r = call double @remainder(double %xw, double %yw)
  %result = fptrunc double %r to float
  ret float %result
})";

/// Half a unit in the last place less one, plus the last kept bit, rounds to nearest even. For a result that is
/// subnormal, adding 0.5 lets the processor round: the last place of 0.5 is that of a subnormal half.
constexpr const char *kToHalf = R"(
define internal half @to_half(i32 %bits) alwaysinline {
  %a = and i32 %bits, 2147483647
  %sign.32 = lshr i32 %bits, 16
  %sign = and i32 %sign.32, 32768
  %is.nan = icmp ugt i32 %a, 2139095040
  %payload.0 = lshr i32 %a, 13
  %payload = and i32 %payload.0, 511
  %nan = or i32 %payload, 32256
  %is.big = icmp uge i32 %a, 1199566848
  %is.small = icmp ult i32 %a, 947912704
  %value = bitcast i32 %a to float
  %sum = fadd float %value, 0.5
  %sum.bits = bitcast float %sum to i32
  %small = sub i32 %sum.bits, 1056964608
  %rebased = sub i32 %a, 939524096
  %last.0 = lshr i32 %a, 13
  %last = and i32 %last.0, 1
  %half = add i32 %rebased, 4095
  %rounded = add i32 %half, %last
  %normal = lshr i32 %rounded, 13
  %r.1 = select i1 %is.small, i32 %small, i32 %normal
  %r.2 = select i1 %is.big, i32 31744, i32 %r.1
  %r.3 = select i1 %is.nan, i32 %nan, i32 %r.2
  %r = or i32 %r.3, %sign
  %r.16 = trunc i32 %r to i16
  %result = bitcast i16 %r.16 to half
  ret half %result
})";

constexpr const char *kToBfloat = R"(
define internal bfloat @to_bfloat(i32 %bits) alwaysinline {
  %a = and i32 %bits, 2147483647
  %is.nan = icmp ugt i32 %a, 2139095040
  %high = lshr i32 %bits, 16
  %nan = or i32 %high, 64
  %last = and i32 %high, 1
  %half = add i32 %bits, 32767
  %sum = add i32 %half, %last
  %rounded = lshr i32 %sum, 16
  %r = select i1 %is.nan, i32 %nan, i32 %rounded
  %r.16 = trunc i32 %r to i16
  %result = bitcast i16 %r.16 to bfloat
  ret bfloat %result
})";

/// float64 to float32 towards zero, the last bit set when something was lost: a second rounding to fewer bits is then
/// right.
constexpr const char *kRoundToOdd = R"(
define internal i32 @round_to_odd(double %x) alwaysinline {
  %near = fptrunc double %x to float
  %back = fpext float %near to double
  %bits = bitcast float %near to i32
  %x.abs = call double @llvm.fabs.f64(double %x)
  %back.abs = call double @llvm.fabs.f64(double %back)
  %above = fcmp ogt double %back.abs, %x.abs
  %above.32 = zext i1 %above to i32
  %down = sub i32 %bits, %above.32
  %inexact = fcmp one double %back, %x
  %sticky = zext i1 %inexact to i32
  %result = or i32 %down, %sticky
  ret i32 %result
}
declare double @llvm.fabs.f64(double)
)";

constexpr const char *kFloatToHalf = R"(
define half @__truncsfhf2(float %x) {
  %bits = bitcast float %x to i32
  %result = call half @to_half(i32 %bits)
  ret half %result
})";

constexpr const char *kDoubleToHalf = R"(
define half @__truncdfhf2(double %x) {
  %bits = call i32 @round_to_odd(double %x)
  %result = call half @to_half(i32 %bits)
  ret half %result
})";

constexpr const char *kFloatToBfloat = R"(
define bfloat @__truncsfbf2(float %x) {
  %bits = bitcast float %x to i32
  %result = call bfloat @to_bfloat(i32 %bits)
  ret bfloat %result
})";

constexpr const char *kDoubleToBfloat = R"(
define bfloat @__truncdfbf2(double %x) {
  %bits = call i32 @round_to_odd(double %x)
  %result = call bfloat @to_bfloat(i32 %bits)
  ret bfloat %result
})";

/// A subnormal half is m * 2^-24: m placed behind an exponent of -14 makes 2^-14 + m * 2^-24.
constexpr const char *kHalfToFloat = R"(
define float @__extendhfsf2(half %x) {
  %h.16 = bitcast half %x to i16
  %h = zext i16 %h.16 to i32
  %sign.0 = and i32 %h, 32768
  %sign = shl i32 %sign.0, 16
  %a = and i32 %h, 32767
  %placed = shl i32 %a, 13
  %normal = add i32 %placed, 939524096
  %is.special = icmp uge i32 %a, 31744
  %special.0 = add i32 %placed, 1879048192
  %is.nan = icmp ugt i32 %a, 31744
  %quiet = select i1 %is.nan, i32 4194304, i32 0
  %special = or i32 %special.0, %quiet
  %is.small = icmp ult i32 %a, 1024
  %above.bits = add i32 %placed, 947912704
  %above = bitcast i32 %above.bits to float
  %exact = fsub float %above, 0x3F10000000000000
  %small = bitcast float %exact to i32
  %r.1 = select i1 %is.small, i32 %small, i32 %normal
  %r.2 = select i1 %is.special, i32 %special, i32 %r.1
  %r = or i32 %r.2, %sign
  %result = bitcast i32 %r to float
  ret float %result
})";

/// The product is exact in float64. The sum is rounded to odd with the error term of Knuth's TwoSum, then once to
/// float32.
constexpr const char *kFmaf = R"(
define float @fmaf(float %x, float %y, float %z) {
  %xw = fpext float %x to double
  %yw = fpext float %y to double
  %zw = fpext float %z to double
  %p = fmul double %xw, %yw
  %s = fadd double %p, %zw
  %zz = fsub double %s, %p
  %pp = fsub double %s, %zz
  %p.error = fsub double %p, %pp
  %z.error = fsub double %zw, %zz
  %error = fadd double %p.error, %z.error
  %inexact = fcmp one double %error, 0.0
  %bits = bitcast double %s to i64
  %last = and i64 %bits, 1
  %even = icmp eq i64 %last, 0
  %adjust = and i1 %inexact, %even
  %error.up = fcmp ogt double %error, 0.0
  %s.up = fcmp ogt double %s, 0.0
  %outward = icmp eq i1 %error.up, %s.up
  %step = select i1 %outward, i64 1, i64 -1
  %odd = add i64 %bits, %step
  %final.bits = select i1 %adjust, i64 %odd, i64 %bits
  %final = bitcast i64 %final.bits to double
  %result = fptrunc double %final to float
  ret float %result
})";

/// Up to three multiplications by powers of two. Those that go down keep 53 bits in hand, so that only the last one
/// rounds.
constexpr const char *kLdexp = R"(
define double @ldexp(double %x, i32 %n.0) {
  %n.1 = call i32 @llvm.smin.i32(i32 %n.0, i32 3069)
  %n = call i32 @llvm.smax.i32(i32 %n.1, i32 -2960)
  %up = icmp sgt i32 %n, 1023
  %down = icmp slt i32 %n, -1022
  %step.0 = select i1 %up, i32 1023, i32 0
  %step = select i1 %down, i32 -969, i32 %step.0
  %factor.0 = select i1 %up, double 0x7FE0000000000000, double 1.0
  %factor = select i1 %down, double 0x0360000000000000, double %factor.0
  %x.1 = fmul double %x, %factor
  %rest.1 = sub i32 %n, %step
  %up.2 = icmp sgt i32 %rest.1, 1023
  %down.2 = icmp slt i32 %rest.1, -1022
  %step.2.0 = select i1 %up.2, i32 1023, i32 0
  %step.2 = select i1 %down.2, i32 -969, i32 %step.2.0
  %factor.2.0 = select i1 %up.2, double 0x7FE0000000000000, double 1.0
  %factor.2 = select i1 %down.2, double 0x0360000000000000, double %factor.2.0
  %x.2 = fmul double %x.1, %factor.2
  %rest.2 = sub i32 %rest.1, %step.2
  %biased = add i32 %rest.2, 1023
  %biased.64 = zext i32 %biased to i64
  %last.bits = shl i64 %biased.64, 52
  %last = bitcast i64 %last.bits to double
  %result = fmul double %x.2, %last
  ret double %result
}
declare i32 @llvm.smin.i32(i32, i32)
declare i32 @llvm.smax.i32(i32, i32))";

/// A float32 number times 2^±500 is exact in float64 and past either end of float32.
constexpr const char *kLdexpf = R"(
define float @ldexpf(float %x, i32 %n.0) {
  %n.1 = call i32 @llvm.smin.i32(i32 %n.0, i32 500)
  %n = call i32 @llvm.smax.i32(i32 %n.1, i32 -500)
  %biased = add i32 %n, 1023
  %biased.64 = zext i32 %biased to i64
  %bits = shl i64 %biased.64, 52
  %factor = bitcast i64 %bits to double
  %wide = fpext float %x to double
  %product = fmul double %wide, %factor
  %result = fptrunc double %product to float
  ret float %result
}
declare i32 @llvm.smin.i32(i32, i32)
declare i32 @llvm.smax.i32(i32, i32))";

/// The fraction in [0.5, 1) and the exponent; zero, infinity and NaN come back as they are, with exponent 0.
constexpr const char *kSplit = R"(
define internal double @split(double %x, ptr %exponent) alwaysinline {
  %xb = bitcast double %x to i64
  %ax = and i64 %xb, 9223372036854775807
  %is.zero = icmp eq i64 %ax, 0
  %is.special.0 = icmp uge i64 %ax, 9218868437227405312
  %is.special = or i1 %is.zero, %is.special.0
  %is.small = icmp ult i64 %ax, 4503599627370496
  %scaled = fmul double %x, 0x4350000000000000
  %v = select i1 %is.small, double %scaled, double %x
  %bias = select i1 %is.small, i64 1076, i64 1022
  %vb = bitcast double %v to i64
  %field.0 = lshr i64 %vb, 52
  %field = and i64 %field.0, 2047
  %e.64 = sub i64 %field, %bias
  %e.32 = trunc i64 %e.64 to i32
  %e = select i1 %is.special, i32 0, i32 %e.32
  store i32 %e, ptr %exponent, align 4
  %kept = and i64 %vb, -9218868437227405313
  %set = or i64 %kept, 4602678819172646912
  %fraction = bitcast i64 %set to double
  %result = select i1 %is.special, double %x, double %fraction
  ret double %result
})";

constexpr const char *kFrexpf = R"(
define float @frexpf(float %x, ptr %exponent) {
  %xw = fpext float %x to double
  %fraction = call double @split(double %xw, ptr %exponent)
  %result = fptrunc double %fraction to float
  ret float %result
})";

constexpr const char *kMemcpy = R"(
define ptr @memcpy(ptr %to, ptr %from, i64 %size) {
  %result = call ptr @move(ptr %to, ptr %from, i64 %size)
  ret ptr %result
})";

constexpr const char *kMemmove = R"(
define ptr @memmove(ptr %to, ptr %from, i64 %size) {
  %result = call ptr @move(ptr %to, ptr %from, i64 %size)
  ret ptr %result
})";

constexpr const char *kFmod = R"(
define double @fmod(double %x, double %y) {
  %result = call double @remainder(double %x, double %y)
  ret double %result
})";

constexpr const char *kFrexp = R"(
define double @frexp(double %x, ptr %exponent) {
  %result = call double @split(double %x, ptr %exponent)
  ret double %result
})";

constexpr Builtin kBuiltins[] = {
    {"memcpy", kMemcpy, {kMove, ""}},
    {"memmove", kMemmove, {kMove, ""}},
    {"memset", kMemset},
    {"fmod", kFmod, {kRemainder, ""}},
    {"fmodf", kFmodf, {kRemainder, ""}},
    {"__truncsfhf2", kFloatToHalf, {kToHalf, ""}},
    {"__truncdfhf2", kDoubleToHalf, {kToHalf, kRoundToOdd}},
    {"__truncsfbf2", kFloatToBfloat, {kToBfloat, ""}},
    {"__truncdfbf2", kDoubleToBfloat, {kToBfloat, kRoundToOdd}},
    {"__extendhfsf2", kHalfToFloat},
    {"fmaf", kFmaf},
    {"ldexp", kLdexp},
    {"ldexpf", kLdexpf},
    {"frexp", kFrexp, {kSplit, ""}},
    {"frexpf", kFrexpf, {kSplit, ""}},
};

std::vector<std::byte> compile_builtin(const Builtin &builtin, const Target &target) {
  std::string text = std::string(builtin.text) + builtin.helpers[0] + builtin.helpers[1];
  Image image = link_packed(emit_object_from_text(text, target), target);
  auto entry = image.exports.find(std::string(builtin.name));
  OXYFUEL_CHECK(entry != image.exports.end() && entry->second == 0,
                "the code of builtin " + std::string(builtin.name) + " does not start with its entry");
  return std::move(image.bytes);
}

} // namespace

std::span<const std::byte> builtin_code(std::string_view name, const Target &target) {
  static std::mutex mutex;
  static std::map<std::string, std::vector<std::byte>> compiled;
  for (const Builtin &builtin : kBuiltins) {
    if (builtin.name != name)
      continue;
    std::string key = std::string(name) + " " + target.text();
    {
      std::lock_guard lock(mutex);
      if (auto found = compiled.find(key); found != compiled.end())
        return found->second;
    }
    // Compiled without the lock: the linker asks for builtins while it links one. A second copy by another thread is
    // dropped.
    std::vector<std::byte> code = compile_builtin(builtin, target);
    std::lock_guard lock(mutex);
    return compiled.emplace(std::move(key), std::move(code)).first->second;
  }
  return {};
}

std::vector<std::string> builtin_names() {
  std::vector<std::string> names;
  for (const Builtin &builtin : kBuiltins)
    names.emplace_back(builtin.name);
  return names;
}

} // namespace oxyfuel::codegen
