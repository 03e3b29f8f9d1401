@cuda.jit("void(int64, int64, CPointer(float64), CPointer(float64), int64, int64, int64, int64, CPointer(float64), int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def kernel(n0, n1, x0, x1, s4, c5, c6, c7, x2, b9, c10, b11, b12, b13, b14, c15, s16, b17, c18, s19):
    # multiply: float64, 2-d
    n0 = int32(n0)
    n1 = int32(n1)
    s4 = int32(s4)
    c5 = int32(c5)
    c6 = int32(c6)
    c7 = int32(c7)
    b9 = int32(b9)
    c10 = int32(c10)
    b11 = int32(b11)
    b12 = int32(b12)
    b13 = int32(b13)
    b14 = int32(b14)
    c15 = int32(c15)
    s16 = int32(s16)
    b17 = int32(b17)
    c18 = int32(c18)
    s19 = int32(s19)
    v0 = x0[0]
    v7 = float64(0.0)
    v10 = float64(2.0)
    v31 = x0[0]
    v39 = float64(0.0)
    v51 = float64(2.0)
    tasks = uint32(n0 * n1)
    step = uint32(cuda.gridDim.x * cuda.blockDim.x)
    task = uint32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    while task < tasks:
        i1 = int32(task % max(uint32(n1), uint32(1)))
        rest1 = uint32(task // max(uint32(n1), uint32(1)))
        i0 = int32(rest1)
        if b12 <= i0 < b13:
            if i1 < b9:
                p0 = int32(i0 * s4 + i1)
                v1 = x1[p0]
                v2 = x1[p0 + c5]
                v3 = x1[p0 + c6]
                v4 = v2 + v3
                v5 = x1[p0 + c7]
                v6 = v4 + v5
                v8 = v6 + v7
                v9 = libdevice.fma(-v0, v1, v8)
                v11 = libdevice.dmul_rn(v9, v10)
                x2[p0] = v11
            elif i1 < b11:
                p1 = int32(i0 * s4 + i1)
                v12 = x1[p1]
                v13 = x1[p1 + c5]
                v14 = x1[p1 + c6]
                v15 = v13 + v14
                v16 = x1[p1 + c7]
                v17 = v15 + v16
                v18 = x1[p1 + c10]
                v19 = v17 + v18
                v20 = libdevice.fma(-v0, v12, v19)
                v21 = libdevice.dmul_rn(v20, v10)
                x2[p1] = v21
            else:
                p2 = int32(i0 * s4 + i1)
                v22 = x1[p2]
                v23 = x1[p2 + c5]
                v24 = x1[p2 + c6]
                v25 = v23 + v24
                v26 = v25 + v7
                v27 = x1[p2 + c10]
                v28 = v26 + v27
                v29 = libdevice.fma(-v0, v22, v28)
                v30 = libdevice.dmul_rn(v29, v10)
                x2[p2] = v30
        else:
            v33 = i0
            v34 = (b14 <= v33) & (v33 < b13)
            v36 = int32(i0 + c15)
            v37 = v36 if v34 else int32(0)
            v41 = (b12 <= v33) & (v33 < b17)
            v42 = int32(i0 + c18)
            v43 = v42 if v41 else int32(0)
            if i1 < b9:
                p3 = int32(i0 * s4 + i1)
                v32 = x1[p3]
                p4 = int32(v37 * s16 + i1)
                v38 = x1[p4]
                v40 = cuda.selp(v34, v38, v39)
                p5 = int32(v43 * s19 + i1)
                v44 = x1[p5]
                v45 = cuda.selp(v41, v44, v39)
                v46 = v40 + v45
                v47 = x1[p3 + c7]
                v48 = v46 + v47
                v49 = v48 + v39
                v50 = libdevice.fma(-v31, v32, v49)
                v52 = libdevice.dmul_rn(v50, v51)
                x2[p3] = v52
            elif i1 < b11:
                p6 = int32(i0 * s4 + i1)
                v53 = x1[p6]
                p7 = int32(v37 * s16 + i1)
                v54 = x1[p7]
                v55 = cuda.selp(v34, v54, v39)
                p8 = int32(v43 * s19 + i1)
                v56 = x1[p8]
                v57 = cuda.selp(v41, v56, v39)
                v58 = v55 + v57
                v59 = x1[p6 + c7]
                v60 = v58 + v59
                v61 = x1[p6 + c10]
                v62 = v60 + v61
                v63 = libdevice.fma(-v31, v53, v62)
                v64 = libdevice.dmul_rn(v63, v51)
                x2[p6] = v64
            else:
                p9 = int32(i0 * s4 + i1)
                v65 = x1[p9]
                p10 = int32(v37 * s16 + i1)
                v66 = x1[p10]
                v67 = cuda.selp(v34, v66, v39)
                p11 = int32(v43 * s19 + i1)
                v68 = x1[p11]
                v69 = cuda.selp(v41, v68, v39)
                v70 = v67 + v69
                v71 = v70 + v39
                v72 = x1[p9 + c10]
                v73 = v71 + v72
                v74 = libdevice.fma(-v31, v65, v73)
                v75 = libdevice.dmul_rn(v74, v51)
                x2[p9] = v75
        task = uint32(task + step)


@cuda.jit("void(int64, int64, int64, int64, int64, CPointer(float64), int64, int64, int64, CPointer(float64), int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def kernel(n0, n1, b2, b3, c4, x0, s6, c7, c8, x1, s10, b11, c12, c13, c14, b15, b16, b17, c18, b19, b20, c21, s22, s23, s24, c25, c26, c27):
    # add_slice: float64, 2-d
    n0 = int32(n0)
    n1 = int32(n1)
    b2 = int32(b2)
    b3 = int32(b3)
    c4 = int32(c4)
    s6 = int32(s6)
    c7 = int32(c7)
    c8 = int32(c8)
    s10 = int32(s10)
    b11 = int32(b11)
    c12 = int32(c12)
    c13 = int32(c13)
    c14 = int32(c14)
    b15 = int32(b15)
    b16 = int32(b16)
    b17 = int32(b17)
    c18 = int32(c18)
    b19 = int32(b19)
    b20 = int32(b20)
    c21 = int32(c21)
    s22 = int32(s22)
    s23 = int32(s23)
    s24 = int32(s24)
    c25 = int32(c25)
    c26 = int32(c26)
    c27 = int32(c27)
    v42 = float64(0.0)
    tasks = uint32(n0 * n1)
    step = uint32(cuda.gridDim.x * cuda.blockDim.x)
    task = uint32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    while task < tasks:
        i1 = int32(task % max(uint32(n1), uint32(1)))
        rest1 = uint32(task // max(uint32(n1), uint32(1)))
        i0 = int32(rest1)
        if b16 <= i0 < b17:
            if i1 < b11:
                v0 = i1
                v1 = (b2 <= v0) & (v0 < b3)
                v3 = int32(i1 + c4)
                v4 = v3 if v1 else int32(0)
                p0 = int32(i0 * s6 + i1)
                v5 = x0[p0 + c7]
                p1 = int32(i0 * s6 + v4)
                v6 = x0[p1]
                v7 = v5 + v6
                v8 = cuda.selp(v1, v7, v5)
                v9 = x0[p1 + c8]
                v10 = v8 + v9
                v11 = cuda.selp(v1, v10, v8)
                p2 = int32(i0 * s10 + i1)
                x1[p2] = v11
            elif i1 < b15:
                p3 = int32(i0 * s6 + i1)
                v12 = x0[p3 + c7]
                v13 = x0[p3 + c12]
                v14 = v12 + v13
                v15 = x0[p3 + c13]
                v16 = v14 + v15
                v17 = x0[p3 + c14]
                v18 = v16 + v17
                p4 = int32(i0 * s10 + i1)
                x1[p4] = v18
            elif i1 < b3:
                p5 = int32(i0 * s6 + i1)
                v19 = x0[p5 + c12]
                v20 = x0[p5 + c13]
                v21 = v19 + v20
                v22 = x0[p5 + c14]
                v23 = v21 + v22
                p6 = int32(i0 * s10 + i1)
                x1[p6] = v23
            else:
                p7 = int32(i0 * s6 + i1)
                v24 = x0[p7 + c12]
                p8 = int32(i0 * s10 + i1)
                x1[p8] = v24
        else:
            v25 = i0
            v26 = (b16 <= v25) & (v25 < n0)
            v28 = int32(i0 + c18)
            v29 = v28 if v26 else int32(0)
            v35 = (0 <= v25) & (v25 < b17)
            v36 = v25 if v35 else int32(0)
            v38 = (b19 <= v25) & (v25 < b20)
            v39 = int32(i0 + c21)
            v40 = v39 if v38 else int32(0)
            if i1 < b11:
                v30 = i1
                v31 = (b2 <= v30) & (v30 < b3)
                v32 = int32(i1 + c4)
                v33 = v32 if v31 else int32(0)
                v34 = v26 & v31
                v37 = v35 & v31
                p9 = int32(v40 * s22 + i1)
                v41 = x0[p9]
                v43 = cuda.selp(v38, v41, v42)
                p10 = int32(v36 * s23 + v33)
                v44 = x0[p10]
                v45 = v43 + v44
                v46 = cuda.selp(v37, v45, v43)
                p11 = int32(v29 * s24 + v33)
                v47 = x0[p11]
                v48 = v46 + v47
                v49 = cuda.selp(v34, v48, v46)
                p12 = int32(i0 * s10 + i1)
                x1[p12] = v49
            elif i1 < b15:
                p13 = int32(v40 * s22 + i1)
                v50 = x0[p13]
                v51 = cuda.selp(v38, v50, v42)
                v52 = x0[p13 + c25]
                v53 = v51 + v52
                v54 = cuda.selp(v38, v53, v51)
                p14 = int32(v36 * s23 + i1)
                v55 = x0[p14 + c26]
                v56 = v54 + v55
                v57 = cuda.selp(v35, v56, v54)
                p15 = int32(v29 * s24 + i1)
                v58 = x0[p15 + c27]
                v59 = v57 + v58
                v60 = cuda.selp(v26, v59, v57)
                p16 = int32(i0 * s10 + i1)
                x1[p16] = v60
            elif i1 < b3:
                p17 = int32(v40 * s22 + i1)
                v61 = x0[p17 + c25]
                v62 = v42 + v61
                v63 = cuda.selp(v38, v62, v42)
                p18 = int32(v36 * s23 + i1)
                v64 = x0[p18 + c26]
                v65 = v63 + v64
                v66 = cuda.selp(v35, v65, v63)
                p19 = int32(v29 * s24 + i1)
                v67 = x0[p19 + c27]
                v68 = v66 + v67
                v69 = cuda.selp(v26, v68, v66)
                p20 = int32(i0 * s10 + i1)
                x1[p20] = v69
            else:
                p21 = int32(v40 * s22 + i1)
                v70 = x0[p21 + c25]
                v71 = v42 + v70
                v72 = cuda.selp(v38, v71, v42)
                p22 = int32(i0 * s10 + i1)
                x1[p22] = v72
        task = uint32(task + step)


@cuda.jit("void(int64, int64, CPointer(float64), int64, CPointer(float64), CPointer(float64), int64, int64, CPointer(float64))")
def kernel(n0, n1, x0, s3, x1, x2, s6, c7, x3):
    # add: float64, 2-d
    n0 = int32(n0)
    n1 = int32(n1)
    s3 = int32(s3)
    s6 = int32(s6)
    c7 = int32(c7)
    v2 = x1[0]
    tasks = uint32(n0 * n1)
    step = uint32(cuda.gridDim.x * cuda.blockDim.x)
    task = uint32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    while task < tasks:
        i1 = int32(task % max(uint32(n1), uint32(1)))
        rest1 = uint32(task // max(uint32(n1), uint32(1)))
        i0 = int32(rest1)
        p0 = int32(i0 * s3 + i1)
        v0 = x0[p0]
        v1 = -v0
        p1 = int32(i0 * s6 + i1)
        v3 = x2[p1 + c7]
        v4 = libdevice.fma(v1, v2, v3)
        x3[p0] = v4
        task = uint32(task + step)
