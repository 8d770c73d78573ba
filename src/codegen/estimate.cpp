// Disassembles the code in one sweep, takes each backward branch for the end of a loop, and simulates those loops that
// no other one begins or ends in.
#include "codegen/estimate.h"

#include "codegen/backend.h"
#include "codegen/object_section.h"
#include "support/error.h"

#include <llvm/MC/MCAsmInfo.h>
#include <llvm/MC/MCContext.h>
#include <llvm/MC/MCDisassembler/MCDisassembler.h>
#include <llvm/MC/MCInst.h>
#include <llvm/MC/MCInstrAnalysis.h>
#include <llvm/MC/MCInstrInfo.h>
#include <llvm/MC/MCRegisterInfo.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/MCA/Context.h>
#include <llvm/MCA/CustomBehaviour.h>
#include <llvm/MCA/InstrBuilder.h>
#include <llvm/MCA/Pipeline.h>
#include <llvm/MCA/SourceMgr.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>

namespace oxyfuel::codegen {

namespace {

constexpr unsigned kIterations = 200; // so that filling the pipeline does not count

struct Instruction {
  llvm::MCInst code;
  uint64_t address = 0;
  uint64_t target = UINT64_MAX; ///< of a branch with a known one
};

void start_disassembler() {
  static const bool started = [] {
#ifdef OXYFUEL_LLVM_TARGET_X86
    LLVMInitializeX86Disassembler();
#endif
    return true;
  }();
  (void)started;
}

std::vector<Instruction> disassemble(std::span<const char> code, const llvm::Target &backend,
                                     const llvm::MCInstrAnalysis &analysis, const llvm::TargetMachine &machine) {
  const llvm::MCSubtargetInfo &subtarget = machine.getMCSubtargetInfo();
  llvm::MCContext context(machine.getTargetTriple(), machine.getMCAsmInfo(), machine.getMCRegisterInfo(), subtarget);
  std::unique_ptr<llvm::MCDisassembler> disassembler(backend.createMCDisassembler(subtarget, context));
  OXYFUEL_CHECK(disassembler != nullptr, "LLVM has no disassembler for this architecture");
  llvm::ArrayRef<uint8_t> bytes(reinterpret_cast<const uint8_t *>(code.data()), code.size());
  std::vector<Instruction> instructions;
  for (uint64_t address = 0; address < bytes.size();) {
    Instruction instruction;
    instruction.address = address;
    uint64_t size = 0;
    if (disassembler->getInstruction(instruction.code, size, bytes.slice(address), address, llvm::nulls()) !=
        llvm::MCDisassembler::Success)
      throw InternalError("generated code cannot be disassembled", {.found = "offset " + std::to_string(address)});
    if (analysis.isBranch(instruction.code))
      analysis.evaluateBranch(instruction.code, address, size, instruction.target);
    instructions.push_back(std::move(instruction));
    address += size;
  }
  return instructions;
}

double cycles_of(std::span<const Instruction> loop, const llvm::MCInstrAnalysis &analysis,
                 const llvm::TargetMachine &machine) {
  namespace mca = llvm::mca;
  const llvm::MCSubtargetInfo &subtarget = machine.getMCSubtargetInfo();
  const llvm::MCInstrInfo &info = *machine.getMCInstrInfo();
  const llvm::MCRegisterInfo &registers = machine.getMCRegisterInfo();
  mca::InstrumentManager instruments(subtarget, info);
  mca::InstrBuilder builder(subtarget, info, registers, &analysis, instruments, /*CallLatency=*/100);
  std::vector<std::unique_ptr<mca::Instruction>> sequence;
  for (const Instruction &instruction : loop) {
    llvm::Expected<std::unique_ptr<mca::Instruction>> made = builder.createInstruction(instruction.code, {});
    if (!made)
      throw InternalError("llvm-mca does not know an instruction", {.found = llvm::toString(made.takeError())});
    sequence.push_back(std::move(*made));
  }
  mca::CircularSourceMgr source(sequence, kIterations);
  mca::CustomBehaviour behaviour(subtarget, source, info);
  mca::Context context(registers, subtarget);
  // Sizes of queues: the processor model's. Loads and stores do not alias.
  std::unique_ptr<mca::Pipeline> pipeline =
      context.createDefaultPipeline(mca::PipelineOptions(0, 0, 0, 0, 0, 0, true), source, behaviour);
  llvm::Expected<unsigned> cycles = pipeline->run();
  if (!cycles)
    throw InternalError("llvm-mca fails on a loop", {.found = llvm::toString(cycles.takeError())});
  return static_cast<double>(*cycles) / kIterations;
}

} // namespace

CodeEstimate estimate_code(std::span<const std::byte> object, const Target &target) {
  const llvm::Target &backend = find_backend(target.triple);
  start_disassembler();
  const llvm::TargetMachine &machine = target_machine(target, 2);
  std::span<const char> code = object_section({reinterpret_cast<const char *>(object.data()), object.size()}, ".text");
  std::unique_ptr<llvm::MCInstrAnalysis> analysis(backend.createMCInstrAnalysis(machine.getMCInstrInfo()));
  OXYFUEL_CHECK(analysis != nullptr, "LLVM has no analysis of instructions for this architecture");
  std::vector<Instruction> instructions = disassemble(code, backend, *analysis, machine);

  struct Range {
    size_t first, last;
  };
  std::vector<Range> loops;
  for (size_t last = 0; last < instructions.size(); ++last)
    for (size_t first = last + 1; first-- > 0;)
      if (instructions[last].target == instructions[first].address)
        loops.push_back({first, last});
  CodeEstimate estimate;
  estimate.instructions = static_cast<int>(instructions.size());
  for (const Range &loop : loops) {
    bool is_innermost = true;
    for (const Range &other : loops)
      is_innermost = is_innermost && (&other == &loop || other.first < loop.first || other.last > loop.last ||
                                      (other.first == loop.first && other.last == loop.last));
    if (!is_innermost)
      continue;
    std::span<const Instruction> body(&instructions[loop.first], loop.last - loop.first + 1);
    estimate.loops.push_back({static_cast<int>(body.size()), cycles_of(body, *analysis, machine)});
  }
  return estimate;
}

} // namespace oxyfuel::codegen
